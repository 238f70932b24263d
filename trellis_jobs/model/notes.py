"""What a running handler says about its work: progress and log lines."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import datetime


class LogLevel(StrEnum):
    INFO = "info"
    WARN = "warn"
    ERROR = "error"


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    step: str | None = None
    message: str | None = None
    current: int | None = None
    total: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LogLine:
    at: datetime
    level: LogLevel
    message: str


@dataclass(frozen=True, slots=True)
class Notes:
    """Progress and lines not yet in the log; they ride on whatever event is appended next."""

    progress: Progress | None = None
    lines: tuple[LogLine, ...] = ()


NOTHING_NOTED = Notes()
