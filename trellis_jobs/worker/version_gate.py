"""Jobs of newer code than this worker's, as a rolling deploy makes them: left to newer workers."""

from __future__ import annotations

import logging
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from trellis_jobs.model.delivery_decision import RedeliverLater

if TYPE_CHECKING:
    from trellis_jobs.contract.declaration import JobType
    from trellis_jobs.environment import Environment
    from trellis_jobs.jetstream.work.delivery import Delivery

log = logging.getLogger(__name__)

# How long such a job stays away: longer each time, so that an old worker alone is not kept busy.
_AWAY: Final = timedelta(seconds=1)
_MOST_DOUBLINGS: Final = 2
_LATELY: Final = 60.0


class NewerVersions:
    """Of one queue. It costs the job no try: nothing is known of it that could have failed."""

    def __init__(self, queue: JobType[Any, Any], environment: Environment) -> None:
        self._queue = queue
        self._environment = environment
        self._said: set[int] = set()
        self._met_at: float | None = None

    @property
    def met_lately(self) -> bool:
        """Then this worker asks for one job at a time.

        The server gives to whoever asked first, all that was asked for: a request for more would
        get the job that was put back again and again, before any newer worker.
        """
        met = self._met_at
        return met is not None and self._environment.monotonic() - met < _LATELY

    def meet(self) -> None:
        """A job came that another worker has to run."""
        self._met_at = self._environment.monotonic()

    def put_back(self, delivery: Delivery) -> RedeliverLater | None:
        """What is decided of a job that this code cannot read; None if it can."""
        version = delivery.begun.version
        if version <= self._queue.version:
            return None
        self.meet()
        self._say_once(version, delivery.job.job_id)
        doublings = min(delivery.delivered.number - 1, _MOST_DOUBLINGS)
        return RedeliverLater(_AWAY * 2**doublings * (1 + self._environment.random()))

    def _say_once(self, version: int, job_id: str) -> None:
        if version in self._said:
            return
        self._said.add(version)
        log.warning(
            "job %s of queue %s has payload version %s, this worker knows up to %s: such jobs go "
            "back to the queue for workers with newer code",
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
