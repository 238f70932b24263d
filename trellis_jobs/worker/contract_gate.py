"""Jobs that do not fit this worker's contract, but the contract of the queue's newest worker.

This happens while a deploy changes a payload without a new version, and when two services have the
same name. The worker puts such a job back without using a try, so that a worker with the other
contract gets it. The gate reads nothing from the server until a payload has failed its check.
"""

from __future__ import annotations

import logging
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from trellis_jobs.contract.other_contract import accepts, contract_digest
from trellis_jobs.errors import JobsError
from trellis_jobs.jetstream.client.connection import ConnectionLost
from trellis_jobs.model.job_errors import Interruption, JobError
from trellis_jobs.model.retry import DoublingDelay
from trellis_jobs.model.settlement import ContractMismatch, Fatal, Outcome
from trellis_jobs.model.values import replace

if TYPE_CHECKING:
    from trellis_jobs.contract.declaration import JobType
    from trellis_jobs.environment import Environment
    from trellis_jobs.jetstream.work.delivery import Delivery
    from trellis_jobs.jetstream.work.puller import WorkPuller
    from trellis_jobs.worker.version_gate import VersionGate

log = logging.getLogger(__name__)

MAX_DELIVERIES: Final = 30
# Short at first: while workers of both contracts run, the next delivery mostly goes to another one.
# Later deliveries are far apart, so that a deploy has 25 minutes before the job fails.
_DELAY: Final = DoublingDelay(timedelta(milliseconds=50), max_doublings=10)
_CONTRACT_CACHE_SECONDS: Final = 5.0
_LOG_INTERVAL: Final = 60.0
_MISMATCH_ERRORS: Final = frozenset({Interruption.PAYLOAD_INVALID, Interruption.KEY_UNRESOLVABLE})


class ContractGate:
    """The gate of one queue."""

    def __init__(
        self,
        queue: JobType[Any, Any],
        work: WorkPuller,
        environment: Environment,
        version_gate: VersionGate,
    ) -> None:
        self._queue = queue
        self._work = work
        self._environment = environment
        self._version_gate = version_gate
        self._cached_contract: tuple[float, str | None] | None = None
        self._logged_at: float | None = None

    async def reclassify(self, outcome: Outcome, delivery: Delivery) -> Outcome:
        """Returns ContractMismatch if the job failed only because of this worker's contract.

        Returns every other outcome unchanged.
        """
        if not isinstance(outcome, Fatal) or outcome.error.type not in _MISMATCH_ERRORS:
            return outcome
        if delivery.delivered.number >= MAX_DELIVERIES:
            return outcome
        other = await self._other_contract()
        job, begun = delivery.job, delivery.begun
        if other is None or not accepts(
            other, job.service, job.job_type, begun.payload, begun.version
        ):
            return outcome
        self._version_gate.note_job_for_others()
        delay = _DELAY.after(delivery.delivered.number, self._environment.random())
        self._log(delivery, outcome.error, other)
        return ContractMismatch(replace(outcome.error, type=Interruption.OTHER_CONTRACT), delay)

    async def _other_contract(self) -> str | None:
        """Returns the contract on the server if it differs from this worker's."""
        now = self._environment.monotonic()
        if (
            self._cached_contract is None
            or now - self._cached_contract[0] > _CONTRACT_CACHE_SECONDS
        ):
            try:
                self._cached_contract = now, await self._work.recorded_contract()
            except (JobsError, ConnectionLost) as error:
                log.warning(
                    "cannot read the contract of queue %s from its consumer: %s",
                    self._queue.name,
                    error,
                )
                return None
        carried = self._cached_contract[1]
        return None if carried == self._work.contract else carried

    def _log(self, delivery: Delivery, error: JobError, other: str) -> None:
        now = self._environment.monotonic()
        if self._logged_at is not None and now - self._logged_at < _LOG_INTERVAL:
            return
        self._logged_at = now
        log.warning(
            "job %s of queue %s does not fit the contract %s of this worker (%s), but it fits the "
            "contract %s of the queue's newest worker. It was put back without using a try. Finish "
            "the deploy; if two services have the same name, rename one of them",
            delivery.job.job_id,
            self._queue.name,
            contract_digest(self._work.contract),
            error.message,
            contract_digest(other),
        )
