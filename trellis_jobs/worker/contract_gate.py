"""Jobs that do not fit this worker's contract, but the contract of the queue's newest worker.

That is so while a deploy changes a payload without a new version, and when two services have the
same name. Such a job is put back without using a try, so that a worker of the other contract gets
it. Nothing is read before a payload has failed its check.
"""

from __future__ import annotations

import logging
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from trellis_jobs.contract.other_contract import accepts, digest_of_contract
from trellis_jobs.errors import JobsError
from trellis_jobs.jetstream.client.connection import ConnectionLost
from trellis_jobs.model.job_errors import Interruption, JobError
from trellis_jobs.model.settlement import ContractMismatch, Fatal, Outcome
from trellis_jobs.model.values import replace

if TYPE_CHECKING:
    from trellis_jobs.contract.declaration import JobType
    from trellis_jobs.environment import Environment
    from trellis_jobs.jetstream.work.delivery import Delivery
    from trellis_jobs.jetstream.work.puller import WorkPuller
    from trellis_jobs.worker.version_gate import NewerVersions

log = logging.getLogger(__name__)

MOST_DELIVERIES: Final = 30
_SHORTEST_DELAY: Final = timedelta(seconds=1)
_MOST_DOUBLINGS: Final = 5
_REMEMBERED_FOR: Final = 5.0
_LOGGED_EVERY: Final = 60.0
_MISFITS: Final = frozenset({Interruption.PAYLOAD_INVALID, Interruption.KEY_UNRESOLVABLE})


class OtherContracts:
    """Of one queue."""

    def __init__(
        self,
        queue: JobType[Any, Any],
        work: WorkPuller,
        environment: Environment,
        newer: NewerVersions,
    ) -> None:
        self._queue = queue
        self._work = work
        self._environment = environment
        self._newer = newer
        self._carried: tuple[float, str | None] | None = None
        self._logged_at: float | None = None

    async def judge(self, outcome: Outcome, delivery: Delivery) -> Outcome:
        """The same outcome, unless the job failed only because of this worker's contract."""
        if not isinstance(outcome, Fatal) or outcome.error.type not in _MISFITS:
            return outcome
        if delivery.delivered.number >= MOST_DELIVERIES:
            return outcome
        other = await self._other_contract()
        job, begun = delivery.job, delivery.begun
        if other is None or not accepts(
            other, job.service, job.job_type, begun.payload, begun.version
        ):
            return outcome
        self._newer.meet()
        doublings = min(delivery.delivered.number - 1, _MOST_DOUBLINGS)
        delay = _SHORTEST_DELAY * 2**doublings * (1 + self._environment.random())
        self._log(delivery, outcome.error, other)
        return ContractMismatch(replace(outcome.error, type=Interruption.OTHER_CONTRACT), delay)

    async def _other_contract(self) -> str | None:
        """The contract on the server, where it is not this worker's."""
        now = self._environment.monotonic()
        if self._carried is None or now - self._carried[0] > _REMEMBERED_FOR:
            try:
                self._carried = now, await self._work.recorded_contract()
            except (JobsError, ConnectionLost) as error:
                log.warning("cannot read the contract of queue %s: %s", self._queue.name, error)
                return None
        carried = self._carried[1]
        return None if carried == self._work.contract else carried

    def _log(self, delivery: Delivery, error: JobError, other: str) -> None:
        now = self._environment.monotonic()
        if self._logged_at is not None and now - self._logged_at < _LOGGED_EVERY:
            return
        self._logged_at = now
        log.warning(
            "job %s of queue %s does not fit the contract %s of this worker (%s), but the contract "
            "%s of the newest worker of the queue: it is put back without using a try. Finish the "
            "deploy, or give one of two services with the same name another name",
            delivery.job.job_id,
            self._queue.name,
            digest_of_contract(self._work.contract),
            error.message,
            digest_of_contract(other),
        )
