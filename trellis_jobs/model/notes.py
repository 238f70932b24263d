"""Progress and log lines that a running handler reports."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

from trellis_jobs.model.values import Value

if TYPE_CHECKING:
    from datetime import datetime


class LogLevel(StrEnum):
    INFO = "info"
    WARN = "warn"
    ERROR = "error"


class Progress(Value, frozen=True, kw_only=True):
    step: str | None = None
    message: str | None = None
    current: int | None = None
    total: int | None = None


class LogLine(Value, frozen=True, kw_only=True):
    at: datetime
    level: LogLevel
    message: str


class Notes(Value, frozen=True):
    """Progress and log lines not yet stored. The attempt's next event carries them."""

    progress: Progress | None = None
    lines: tuple[LogLine, ...] = ()


NOTHING_NOTED = Notes()
