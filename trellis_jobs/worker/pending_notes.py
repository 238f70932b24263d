"""Progress and log lines of one attempt that are not in the event log yet.

A worker appends them at most ten times a second, one append at a time (design D23). It merges what
comes faster, and writes the rest with the outcome. So a chatty handler never delays a cancel.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

from trellis_jobs.model.job_errors import bounded
from trellis_jobs.model.notes import NOTHING_NOTED, LogLevel, LogLine, Notes, Progress

if TYPE_CHECKING:
    from datetime import datetime

FLUSH_INTERVAL: Final = 0.1
MAX_LINES: Final = 200
MAX_LINE_LENGTH: Final = 2_000


class PendingNotes:
    __slots__ = ("_dropped", "_lines", "_progress")

    def __init__(self) -> None:
        self._progress: Progress | None = None
        self._lines: deque[LogLine] = deque(maxlen=MAX_LINES)
        self._dropped = 0

    @property
    def is_empty(self) -> bool:
        return self._progress is None and not self._lines

    def progress(self, progress: Progress) -> None:
        self._progress = progress

    def add_line(self, at: datetime, level: LogLevel, message: str) -> None:
        if len(self._lines) == MAX_LINES:
            self._dropped += 1
        self._lines.append(LogLine(at=at, level=level, message=bounded(message, MAX_LINE_LENGTH)))

    def take(self) -> Notes:
        if self.is_empty:
            return NOTHING_NOTED
        lines = tuple(self._lines)
        if self._dropped:
            gap = LogLine(
                at=lines[0].at,
                level=LogLevel.WARN,
                message=f"{self._dropped} log lines were dropped: the handler logs too fast",
            )
            lines = (gap, *lines)
        notes = Notes(self._progress, lines)
        self._progress, self._dropped = None, 0
        self._lines.clear()
        return notes
