"""Remembers which jobs changed in the last moments, by the subjects of their messages."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

from trellis_jobs.model import subjects
from trellis_jobs.model.subjects import LifecycleSubject

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trellis_jobs.jetstream.log.feed import LogMessage

_MAX_BATCHES: Final = 200
_MAX_JOBS: Final = 500


class RecentChanges:
    """Keeps the subjects of batches as they are, and reads them only when a reader asks."""

    def __init__(self) -> None:
        self._batches: deque[tuple[int, list[str]]] = deque()
        self._known_after = 0

    def begin(self, position: int) -> None:
        """What follows this position will be known, and nothing else."""
        self._batches.clear()
        self._known_after = position

    def add(self, batch: Sequence[LogMessage]) -> None:
        names = [message.subject for message in batch[: _MAX_JOBS + 1]]
        self._batches.append((batch[-1].sequence, names))
        if len(self._batches) > _MAX_BATCHES:
            self._known_after, _ = self._batches.popleft()

    def jobs_after(self, sequence: int) -> tuple[str, ...] | None:
        """Return `service/type/id` of each changed job; None if there may be others."""
        if sequence < self._known_after:
            return None
        names = [name for last, batch in self._batches if last > sequence for name in batch]
        if len(names) > _MAX_JOBS:
            return None
        return tuple(dict.fromkeys(job for job in map(_job, names) if job is not None))


def _job(subject: str) -> str | None:
    parsed = subjects.parse(subject)
    if not isinstance(parsed, LifecycleSubject):
        return None
    return f"{parsed.job.service}/{parsed.job.job_type}/{parsed.job.job_id}"
