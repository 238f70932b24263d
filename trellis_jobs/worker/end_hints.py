"""Hints that jobs of one queue may have ended, as far as they came lately (design D22)."""

from __future__ import annotations

from typing import Final

# A hint counts from the delivery of its job until somebody watches that: milliseconds, mostly.
_MOST: Final = 1_000


class EndHints:
    """A hint may come while its job is claimed, or is on its way from its key to its handler, and
    finds nobody who watches it. Whoever begins to watch a job asks here whether to look at once.
    """

    def __init__(self) -> None:
        self._jobs: dict[str, None] = {}

    def add(self, job_id: str) -> None:
        self._jobs.pop(job_id, None)
        self._jobs[job_id] = None
        if len(self._jobs) > _MOST:
            del self._jobs[next(iter(self._jobs))]

    def __contains__(self, job_id: str) -> bool:
        return job_id in self._jobs
