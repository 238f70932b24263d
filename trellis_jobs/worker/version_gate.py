"""Leaves jobs of a newer payload version, as in a rolling deploy, to workers with newer code."""

from __future__ import annotations

import logging
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from trellis_jobs.model.delivery_decision import RedeliverLater
from trellis_jobs.model.retry import DoublingDelay

if TYPE_CHECKING:
    from trellis_jobs.contract.declaration import JobType
    from trellis_jobs.environment import Environment
    from trellis_jobs.jetstream.work.delivery import Delivery

log = logging.getLogger(__name__)

# The delay doubles with each delivery, so that a single old worker is not kept busy.
_DELAY: Final = DoublingDelay(timedelta(seconds=1), max_doublings=2)
_RECENT_SECONDS: Final = 60.0


class VersionGate:
    """The gate of one queue. Putting a job back uses no try, because the job did not run."""

    def __init__(self, queue: JobType[Any, Any], environment: Environment) -> None:
        self._queue = queue
        self._environment = environment
        self._warned_versions: set[int] = set()
        self._noted_at: float | None = None

    @property
    def is_recent(self) -> bool:
        """Whether a job for other workers came in the last minute.

        This worker then requests one job at a time. The server fills the oldest request completely,
        so a large one would get the job that was put back again and again, before newer workers.
        """
        noted = self._noted_at
        return noted is not None and self._environment.monotonic() - noted < _RECENT_SECONDS

    def note_job_for_others(self) -> None:
        """Records that a job came that only another worker can run."""
        self._noted_at = self._environment.monotonic()

    def put_back(self, delivery: Delivery) -> RedeliverLater | None:
        """Returns None if this worker's code can read the job."""
        version = delivery.begun.version
        if version <= self._queue.version:
            return None
        self.note_job_for_others()
        self._warn_once(version, delivery.job.job_id)
        delay = _DELAY.after(delivery.delivered.number, self._environment.random())
        return RedeliverLater(delay)

    def _warn_once(self, version: int, job_id: str) -> None:
        if version in self._warned_versions:
            return
        self._warned_versions.add(version)
        log.warning(
            "job %s of queue %s has payload version %s, but this worker reads only up to version "
            "%s. It puts such jobs back for workers with newer code: finish the deploy",
            job_id,
            self._queue.name,
            version,
            self._queue.version,
            extra={
                "queue": self._queue.name,
                "version": version,
                "known": self._queue.version,
                "job": job_id,
            },
        )
