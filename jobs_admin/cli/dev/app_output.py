"""What a line that an app's worker wrote means: it logs JSON, and handlers print what they like."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import orjson

_RUNTIME: Final = "trellis_jobs"
_OUTCOMES: Final = "trellis_jobs.worker.outcome_log"
_QUIET: Final = frozenset({"debug", "info"})
_OF_A_RECORD: Final = ("level", "logger", "message")
_OF_EVERY_LINE: Final = frozenset({"time", "level", "logger", "message", "exception"})


@dataclass(frozen=True, slots=True)
class Working:
    """The worker is up."""

    service: str
    queues: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Said:
    """By the app: a log record, a print, or a part of a traceback."""

    words: str
    is_alarm: bool = False


def understand(line: str) -> Working | Said | None:
    """None: what the events of jobs say anyway."""
    record = _record(line)
    if record is None:
        return Said(line, is_alarm=line.startswith("error: ")) if line.strip() else None
    queues = record.get("queues")
    if record["message"].startswith("worker started") and isinstance(queues, list):
        return Working(str(record.get("service")), tuple(map(str, queues)))
    is_quiet = record["level"] in _QUIET
    if record["logger"] == _OUTCOMES or (is_quiet and record["logger"].startswith(_RUNTIME)):
        return None
    return Said(_words(record), is_alarm=not is_quiet)


def _record(line: str) -> dict[str, Any] | None:
    if not line.startswith("{"):
        return None
    try:
        found = orjson.loads(line)
    except orjson.JSONDecodeError:
        return None
    is_record = all(isinstance(found.get(name), str) for name in _OF_A_RECORD)
    return found if is_record else None


def _words(record: dict[str, Any]) -> str:
    fields = [f"{name}={value}" for name, value in record.items() if name not in _OF_EVERY_LINE]
    first = "  ".join([record["message"], *fields])
    return f"{first}\n{record['exception']}" if "exception" in record else first
