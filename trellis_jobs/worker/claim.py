"""Claims a delivered job: appends `started`, or finds out why not and answers the delivery.

The guard replaces a read (design D2): the work message names the event it was made from, and the
worker appends `started` directly after that event. It reads the log only after a refusal. A job
with a key gets its slot in between: the guard is known before the slot is acquired, and after a
refusal the slot is released.
"""

from __future__ import annotations

import logging
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from trellis_jobs.errors import JobsError
from trellis_jobs.jetstream.log.event_log import Refused
from trellis_jobs.model import events as e
from trellis_jobs.model.attempts import Attempt
from trellis_jobs.model.delivery_decision import (
    Decision,
    Discard,
    Expire,
    Ignore,
    MarkDead,
    NotStartable,
    RedeliverLater,
    Start,
    TakeOver,
    decide,
)
from trellis_jobs.model.job_status import Head
from trellis_jobs.model.settlement import Ack, Answer, Nak, NoAck, Term
from trellis_jobs.model.values import Value, replace
from trellis_jobs.worker.claimed import Claimed
from trellis_jobs.worker.lost_attempt import lost_attempt_error
from trellis_jobs.worker.slot_acquirer import Contested, HeldSlot, SlotAcquirer, WaitForKey
from trellis_jobs.worker.version_gate import VersionGate

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trellis_jobs.contract.declaration import JobType
    from trellis_jobs.jetstream.work.delivery import Delivery
    from trellis_jobs.model.job_errors import JobError
    from trellis_jobs.model.job_status import JobStatus
    from trellis_jobs.worker.running_job import RunningJob
    from trellis_jobs.worker.worker_context import WorkerContext

log = logging.getLogger(__name__)

# An unreadable key uses no try: the server delivers the job again after this delay.
_KEY_ERROR_NAK: Final = Nak(timedelta(seconds=5))


class _Step(Value, frozen=True):
    """One guarded append, and the answer to the delivery. Without an answer, decide again."""

    event: e.Event
    answer: Answer | None = None


class Claimer:
    """Claims the jobs of one queue. A queue with keys has a `slot_acquirer`.

    `running` has the attempts of this process: they adopt a redelivery of their own job.
    """

    def __init__(
        self,
        queue: JobType[Any, Any],
        context: WorkerContext,
        running: Mapping[str, RunningJob],
        slot_acquirer: SlotAcquirer | None = None,
    ) -> None:
        self._queue = queue
        self._context = context
        self._running = running
        self._slot_acquirer = slot_acquirer
        self.version_gate = VersionGate(queue, context.environment)

    async def claim(
        self,
        delivery: Delivery,
        *,
        may_start: bool = True,
        may_overtake: bool = False,
        seen_idle: bool = False,
        waited: timedelta = timedelta(),
    ) -> Claimed | WaitForKey | None:
        """Returns None if the job cannot start and the delivery has been answered.

        `may_start`: False if this process has no slot for the job, which has a key: the job ends
        or goes on waiting.
        `may_overtake`: the head start of older jobs of the key is over. `seen_idle`: no attempt
        held the job's slot while this delivery waited, so one that runs now started later.
        `waited`: how long the job has waited for its key.
        """
        head: Head | None = delivery.head
        if self._slot_acquirer is not None and delivery.delivered.number > 1:
            # The job has probably changed since its message was written: read before taking a slot.
            head = await self.read_head(delivery)
        while head is not None:
            own = self._running.get(delivery.job.job_id)
            if own is not None and own.attempt_context.attempt == head.status.owner:
                await own.adopt_redelivery(delivery)
                return None
            decision = self._decide(delivery, head, seen_idle=seen_idle)
            outcome: Claimed | WaitForKey | Head | Refused | None
            if isinstance(decision, Start):
                outcome = await self._start(
                    delivery, head, may_start=may_start, may_overtake=may_overtake, waited=waited
                )
            else:
                outcome = await self._apply(delivery, head, decision)
            if isinstance(outcome, Refused):
                head = await self._head_after_refusal(delivery, outcome)
            elif isinstance(outcome, Head):
                head = outcome
            else:
                return outcome
        # The stream leader has no event of this job: it was purged.
        await delivery.answer(Ack())
        return None

    def _decide(self, delivery: Delivery, head: Head, *, seen_idle: bool) -> Decision:
        now = self._context.environment.now()
        decision = decide(head.status, delivery.delivered, now=now, seen_idle=seen_idle)
        put_back = self.version_gate.put_back(delivery) if isinstance(decision, Start) else None
        return put_back or decision

    async def read_head(self, delivery: Delivery) -> Head | None:
        """Reads the job's current head from the log, and keeps it for the next claim."""
        head = await self._context.events.head(
            delivery.job, at_least=delivery.head.sequence, shared=self._queue.shared
        )
        if head is not None:
            delivery.head = head
        return head

    async def _start(
        self,
        delivery: Delivery,
        head: Head,
        *,
        may_start: bool,
        may_overtake: bool,
        waited: timedelta,
    ) -> Claimed | WaitForKey | Head | Refused | None:
        attempt = Attempt(
            self._context.environment.new_id(),
            self._context.identity.instance,
            delivery.delivered.work,
            delivery.delivered.number,
        )
        taken = None
        if self._slot_acquirer is not None:
            try:
                taken = await self._slot_acquirer.acquire(
                    delivery, head, attempt, may_start=may_start, may_overtake=may_overtake
                )
            except JobsError as error:
                await self._redeliver_later(delivery, error)
                return None
        if isinstance(taken, WaitForKey):
            return taken
        if isinstance(taken, Contested):
            return await self._invalidate_rival(delivery, head, taken)
        fields = self._event_fields(delivery, head.status.tries + 1)
        started = e.Started(
            **fields, attempt=attempt, app_version=self._context.identity.app_version
        )
        if isinstance(taken, HeldSlot):
            started = replace(started, concurrency=taken.concurrency, waited_for_key=waited)
        answer = await self._append(head, started)
        if not isinstance(answer, Refused):
            return Claimed(answer, attempt, taken)
        if isinstance(taken, HeldSlot):
            # The job returns to its place in the key. If it is over, it is removed later.
            await taken.release(retry_at=self._context.environment.now())
        return answer

    async def _invalidate_rival(
        self, delivery: Delivery, head: Head, rival: Contested
    ) -> Head | Refused:
        """Appends a note, so that the log refuses the `started` of the attempt with the slot."""
        note = e.StaleCompletionIgnored(
            **self._event_fields(delivery, head.status.tries),
            lost_attempt=rival.token,
            reason=f"worker {rival.instance} took a slot for the job and did not start it",
        )
        return await self._append(head, note)

    async def _redeliver_later(self, delivery: Delivery, error: JobsError) -> None:
        log.error(
            "cannot read or change the key of job %s, it is delivered again in %g s: %s",
            delivery.job.job_id,
            _KEY_ERROR_NAK.delay.total_seconds(),
            error,
            extra={"job": delivery.job.job_id, "error": str(error)},
        )
        await delivery.answer(_KEY_ERROR_NAK)

    async def _apply(
        self, delivery: Delivery, head: Head, decision: NotStartable
    ) -> Head | Refused | None:
        """Carries out a decision. Returns None when the delivery has been answered."""
        step = await self._step(delivery, head.status, decision)
        if not isinstance(step, _Step):
            await self._answer(delivery, head, step)
            return None
        appended = await self._append(head, step.event)
        if isinstance(appended, Refused) or step.answer is None:
            return appended
        if isinstance(step.event, e.Dead):
            _log_death(step.event, head.status.max_tries)
        await self._answer(delivery, appended, step.answer)
        return None

    async def _answer(self, delivery: Delivery, head: Head, answer: Answer) -> None:
        """Removes a job that is over from its key, before the answer (design D15)."""
        if self._slot_acquirer is not None and head.status.is_over:
            await self._slot_acquirer.forget(delivery)
        await delivery.answer(answer)

    async def _append(self, head: Head, event: e.Event) -> Head | Refused:
        telemetry = self._context.telemetry
        with telemetry.appending(event):
            answer = await self._context.events.try_append(head, event)
            if isinstance(answer, Refused):
                telemetry.mark_refused()
        if not isinstance(answer, Refused):
            telemetry.count(event)
        return answer

    async def _head_after_refusal(self, delivery: Delivery, refusal: Refused) -> Head | None:
        latest = await self._context.events.latest_since(
            delivery.job, refusal, shared=self._queue.shared
        )
        if latest is None:
            return None
        delivery.head = latest.head
        return latest.head

    async def _step(
        self, delivery: Delivery, status: JobStatus, decision: NotStartable
    ) -> _Step | Answer:
        match decision:
            case TakeOver(lost):
                return await self._take_over(delivery, status, lost)
            case MarkDead(lost):
                return await self._mark_dead(delivery, status, lost)
            case Expire():
                fields = self._event_fields(delivery, status.tries)
                return _Step(e.Expired(**fields, by="worker", reason="the deadline passed"), Ack())
            case RedeliverLater(delay):
                return Nak(delay)
            case Discard(reason):
                log.info(
                    "dropped a work message of job %s: %s",
                    delivery.job.job_id,
                    reason,
                    extra={"job": delivery.job.job_id, "reason": reason},
                )
                return Ack()
            case Ignore(reason):
                log.info(
                    "ignored an old delivery of job %s: %s",
                    delivery.job.job_id,
                    reason,
                    extra={"job": delivery.job.job_id, "reason": reason},
                )
                return NoAck()

    async def _take_over(
        self, delivery: Delivery, status: JobStatus, lost: Attempt | None
    ) -> _Step:
        error = await self._lost_attempt_error(delivery, status, lost)
        fields = self._event_fields(delivery, status.tries)
        log.warning(
            "job %s is started again because its try %s was lost: %s: %s",
            delivery.job.job_id,
            status.tries,
            error.type,
            error.message,
            extra={"job": delivery.job.job_id, "why": error.type},
        )
        return _Step(e.RetryScheduled(**fields, attempt=lost, error=error))

    async def _mark_dead(
        self, delivery: Delivery, status: JobStatus, lost: Attempt | None
    ) -> _Step:
        error = await self._lost_attempt_error(delivery, status, lost)
        fields = self._event_fields(delivery, status.tries)
        return _Step(
            e.Dead(**fields, attempt=lost, error=error), Term(f"dead after {status.tries} tries")
        )

    async def _lost_attempt_error(
        self, delivery: Delivery, status: JobStatus, lost: Attempt | None
    ) -> JobError:
        return await lost_attempt_error(
            delivery.job, self._queue, lost, status.tries, self._context
        )

    def _event_fields(self, delivery: Delivery, tries: int) -> e.EventFields:
        return {
            "job": delivery.job,
            "context": delivery.begun.context,
            "at": self._context.environment.now(),
            "tries": tries,
        }


def _log_death(dead: e.Dead, max_tries: int) -> None:
    job, error = dead.job, dead.error
    log.error(
        "job %s of %s/%s died after %s of %s tries: %s: %s",
        *(job.job_id, job.service, job.job_type, dead.tries, max_tries, error.type, error.message),
        extra={"job": job.job_id, "why": error.type},
    )
