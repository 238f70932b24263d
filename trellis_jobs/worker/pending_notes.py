"""Progress and log lines of one attempt, until they are in the log.

Notes are gentle (design D23): at most one append in flight and ten a second; what comes faster is
merged, and what is left at the end rides on the outcome. So a note never delays a cancel.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

from trellis_jobs.model.job_errors import bounded
from trellis_jobs.model.notes import NOTHING_NOTED, LogLevel, LogLine, Notes, Progress

if TYPE_CHECKING:
    from datetime import datetime

SPACING: Final = 0.1
LINES_KEPT: Final = 200
LINE_LIMIT: Final = 2_000


class NotePad:
    __slots__ = ("_dropped", "_lines", "_progress")

    def __init__(self) -> None:
        self._progress: Progress | None = None
        self._lines: deque[LogLine] = deque(maxlen=LINES_KEPT)
        self._dropped = 0

    @property
    def is_empty(self) -> bool:
        return self._progress is None and not self._lines

    def progress(self, progress: Progress) -> None:
        self._progress = progress

    def line(self, at: datetime, level: LogLevel, message: str) -> None:
        if len(self._lines) == LINES_KEPT:
            self._dropped += 1
        self._lines.append(LogLine(at=at, level=level, message=bounded(message, LINE_LIMIT)))

    def take(self) -> Notes:
        if self.is_empty:
            return NOTHING_NOTED
        lines = tuple(self._lines)
        if self._dropped:
            gap = LogLine(
                at=lines[0].at,
                level=LogLevel.WARN,
                message=f"{self._dropped} lines came too fast and were dropped",
            )
            lines = (gap, *lines)
        notes = Notes(self._progress, lines)
        self._progress, self._dropped = None, 0
        self._lines.clear()
        return notes
