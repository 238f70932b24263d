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
    """Keeps batches as they are, and reads their subjects only when a reader asks."""

    def __init__(self) -> None:
        self._batches: deque[tuple[int, int, list[str]]] = deque(maxlen=_MAX_BATCHES)

    def add(self, batch: Sequence[LogMessage]) -> None:
        names = [message.subject for message in batch[: _MAX_JOBS + 1]]
        self._batches.append((batch[0].sequence, batch[-1].sequence, names))

    def jobs_after(self, sequence: int) -> tuple[str, ...] | None:
        """Return `service/type/id` of each changed job; None if there may be others."""
        newer = [batch for batch in self._batches if batch[1] > sequence]
        if not newer or newer[0][0] > sequence + 1:
            return None
        names = [name for _, _, batch in newer for name in batch]
        jobs = dict.fromkeys(job for job in map(_job, names) if job is not None)
        return tuple(jobs) if len(names) <= _MAX_JOBS else None


def _job(subject: str) -> str | None:
    parsed = subjects.parse(subject)
    if not isinstance(parsed, LifecycleSubject):
        return None
    return f"{parsed.job.service}/{parsed.job.job_type}/{parsed.job.job_id}"
