"""Log lines as text or JSON: a constant message, and the record's `extra` as fields."""

from __future__ import annotations

import json
import logging
import os
import sys
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, Final

import orjson

from jobs_admin.cli.render.escape import harmless, harmless_json

_STANDARD_FIELDS: Final = frozenset(
    {*vars(logging.makeLogRecord({})), "message", "asctime", "taskName"}
)
_DIM, _RESET = "\x1b[2m", "\x1b[0m"
_COLOURS: Final = {"WARNING": "\x1b[33m", "ERROR": "\x1b[31m", "CRITICAL": "\x1b[31;1m"}


class LogFormat(StrEnum):
    TEXT = "text"
    JSON = "json"


class LogLevel(StrEnum):
    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


def set_up_logs(form: LogFormat, level: LogLevel) -> None:
    """Send all logs of this process to stderr."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines() if form is LogFormat.JSON else TextLines(_wants_colour()))
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    # At debug level it logs every statement with its values, which include whole payloads.
    logging.getLogger("aiosqlite").setLevel(logging.INFO)


class JsonLines(logging.Formatter):
    """One object per line; the four standard fields override extras of the same name."""

    def format(self, record: logging.LogRecord) -> str:
        line = {
            **fields_of(record),
            "time": _time_of(record).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return harmless_json(_encoded(line))


class TextLines(logging.Formatter):
    def __init__(self, coloured: bool) -> None:
        super().__init__()
        self._coloured = coloured

    def format(self, record: logging.LogRecord) -> str:
        time = f"{_time_of(record).astimezone():%H:%M:%S.%f}"[:-3]
        level = self._paint(f"{record.levelname.lower():<7}", _COLOURS.get(record.levelname, ""))
        fields = harmless(_fields_beside(record), one_line=True)
        # Indented, so that the second line of a message cannot be mistaken for another record.
        message = harmless(record.getMessage()).replace("\n", "\n    ")
        line = f"{self._paint(time, _DIM)} {level} {message:<24}"
        line = f"{line} {self._paint(fields, _DIM)}" if fields else line.rstrip()
        if not record.exc_info:
            return line
        return f"{line}\n{harmless(self.formatException(record.exc_info))}"

    def _paint(self, text: str, colour: str) -> str:
        return f"{colour}{text}{_RESET}" if self._coloured and colour else text


def fields_of(record: logging.LogRecord) -> dict[str, Any]:
    """The fields that the caller passed as `extra`, without those that are None."""
    return {
        name: value
        for name, value in vars(record).items()
        if name not in _STANDARD_FIELDS and value is not None
    }


def _fields_beside(record: logging.LogRecord) -> str:
    """The fields whose values are not part of the message."""
    message = record.getMessage()
    return " ".join(
        f"{name}={_plain(value)}"
        for name, value in fields_of(record).items()
        if (", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value))
        not in message
    )


def _time_of(record: logging.LogRecord) -> datetime:
    return datetime.fromtimestamp(record.created, UTC)


def _encoded(line: dict[str, Any]) -> str:
    try:
        return orjson.dumps(line, default=str, option=orjson.OPT_NON_STR_KEYS).decode()
    except orjson.JSONEncodeError:  # a lone surrogate, which UTF-8 cannot encode
        return json.dumps(line, default=str, skipkeys=True)


def _plain(value: Any) -> str:
    if isinstance(value, list | tuple):
        return ",".join(map(str, value)) or "-"
    text = str(value)
    return repr(text) if " " in text or not text or "\n" in text else text


def _wants_colour() -> bool:
    return sys.stderr.isatty() and not os.environ.get("NO_COLOR")
