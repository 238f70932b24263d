"""Parse the output of an app's worker: its JSON log lines, and what handlers print."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import orjson

_RUNTIME: Final = "trellis_jobs"
_OUTCOMES: Final = "trellis_jobs.worker.outcome_log"
_QUIET: Final = frozenset({"debug", "info"})
_REQUIRED_FIELDS: Final = ("level", "logger", "message")
_STANDARD_FIELDS: Final = frozenset({"time", "level", "logger", "message", "exception"})


@dataclass(frozen=True, slots=True)
class WorkerStarted:
    """The worker has started."""

    service: str
    queues: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class AppLine:
    """A line from the app: a log record, printed text, or a part of a traceback."""

    text: str
    is_error: bool = False


def parse_line(line: str) -> WorkerStarted | AppLine | None:
    """Returns None for a line that only repeats the events of jobs."""
    record = _record(line)
    if record is None:
        return AppLine(line, is_error=line.startswith("error: ")) if line.strip() else None
    queues = record.get("queues")
    if record["message"].startswith("worker started") and isinstance(queues, list):
        return WorkerStarted(str(record.get("service")), tuple(map(str, queues)))
    is_quiet = record["level"] in _QUIET
    if record["logger"] == _OUTCOMES or (is_quiet and record["logger"].startswith(_RUNTIME)):
        return None
    return AppLine(_text(record), is_error=not is_quiet)


def _record(line: str) -> dict[str, Any] | None:
    if not line.startswith("{"):
        return None
    try:
        found = orjson.loads(line)
    except orjson.JSONDecodeError:
        return None
    is_record = all(isinstance(found.get(name), str) for name in _REQUIRED_FIELDS)
    return found if is_record else None


def _text(record: dict[str, Any]) -> str:
    fields = [f"{name}={value}" for name, value in record.items() if name not in _STANDARD_FIELDS]
    first = "  ".join([record["message"], *fields])
    return f"{first}\n{record['exception']}" if "exception" in record else first
