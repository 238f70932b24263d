"""Make a delivered job ours: append `started`, or find out why not and answer accordingly.

The guard is the read (design D2): the work message says which event it stems from, so `started`
is appended on top of that. Only a refusal leads to a look at the log. A keyed job gets its slot
between the two: the guard is known before the slot is taken, and a refusal gives the slot back.
"""

from __future__ import annotations

import logging
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from trellis_jobs.contract.topology import consumer_of
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
from trellis_jobs.model.job_errors import Interruption, JobError
from trellis_jobs.model.job_status import Head
from trellis_jobs.model.settlement import Ack, Answer, Nak, NoAck, Term
from trellis_jobs.model.subjects import PresenceSubject
from trellis_jobs.model.values import Value, replace
from trellis_jobs.worker.claimed import Claimed
from trellis_jobs.worker.slot_acquirer import Contested, HeldSlot, SlotAcquirer, Waits
from trellis_jobs.worker.version_gate import NewerVersions

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trellis_jobs.contract.declaration import JobType
    from trellis_jobs.jetstream.work.delivery import Delivery
    from trellis_jobs.model.job_status import JobStatus
    from trellis_jobs.worker.running_job import RunningJob
    from trellis_jobs.worker.worker_context import WorkerContext

log = logging.getLogger(__name__)

# A key whose state cannot be read or written costs no try: its jobs come again after a while.
_AFTER_TROUBLE: Final = Nak(timedelta(seconds=5))


class _Step(Value, frozen=True):
    """One guarded append, and the answer it leads to; None: look again."""

    event: e.Event
    answer: Answer | None = None


class Claims:
    """Of one queue; `desk` is where a queue with keys gets its slots.

    `running` are the attempts of this process: what one of them owns is adopted, not taken over.
    """

    def __init__(
        self,
        queue: JobType[Any, Any],
        tools: WorkerContext,
        running: Mapping[str, RunningJob],
        desk: SlotAcquirer | None = None,
    ) -> None:
        self._queue = queue
        self._tools = tools
        self._running = running
        self._desk = desk
        self.newer = NewerVersions(queue, tools.environment)

    async def claim(
        self,
        delivery: Delivery,
        *,
        may_overtake: bool = False,
        seen_idle: bool = False,
        waited: timedelta = timedelta(),
    ) -> Claimed | Waits | None:
        """Ours, with the `started` event in the log; or its key is taken; or None: answered.

        `may_overtake`: it has waited long enough for those that come before it in its key.
        `seen_idle`: nobody ran the job while this delivery waited here, so whoever runs it now
        began later.
        `waited`: for how long it was not its turn.
        """
        head: Head | None = delivery.head
        if self._desk is not None and delivery.delivered.number > 1:
            # It has moved on since: do not take a slot to find that out.
            head = await self.newest(delivery)
        while head is not None:
            own = self._running.get(delivery.job.job_id)
            if own is not None and own.terms.attempt == head.status.owner:
                await own.meet_again(delivery)
                return None
            decision = self._decide(delivery, head, seen_idle=seen_idle)
            outcome: Claimed | Waits | Head | Refused | None
            if isinstance(decision, Start):
                outcome = await self._start(
                    delivery, head, may_overtake=may_overtake, waited=waited
                )
            else:
                outcome = await self._follow(delivery, head, decision)
            if isinstance(outcome, Refused):
                head = await self._after(delivery, outcome)
            elif isinstance(outcome, Head):
                head = outcome
            else:
                return outcome
        # The leader itself said that the log holds nothing of this job: it was purged.
        await delivery.answer(Ack())
        return None

    def _decide(self, delivery: Delivery, head: Head, *, seen_idle: bool) -> Decision:
        now = self._tools.environment.now()
        decision = decide(head.status, delivery.delivered, now=now, seen_idle=seen_idle)
        newer = self.newer.put_back(delivery) if isinstance(decision, Start) else None
        return newer or decision

    async def newest(self, delivery: Delivery) -> Head | None:
        """Where the log says the job stands now; remembered for the next claim."""
        head = await self._tools.events.head(
            delivery.job, at_least=delivery.head.sequence, shared=self._queue.shared
        )
        if head is not None:
            delivery.head = head
        return head

    async def _start(
        self, delivery: Delivery, head: Head, *, may_overtake: bool, waited: timedelta
    ) -> Claimed | Waits | Head | Refused | None:
        attempt = Attempt(
            self._tools.environment.new_id(),
            self._tools.instance,
            delivery.delivered.work,
            delivery.delivered.number,
        )
        taken = None
        if self._desk is not None:
            try:
                taken = await self._desk.take(delivery, head, attempt, may_overtake=may_overtake)
            except JobsError as error:
                await self._come_again(delivery, error)
                return None
        if isinstance(taken, Waits):
            return taken
        if isinstance(taken, Contested):
            return await self._outdate(delivery, head, taken)
        said = self._said(delivery, head.status.tries + 1)
        started = e.Started(**said, attempt=attempt)
        if isinstance(taken, HeldSlot):
            started = replace(started, concurrency=taken.concurrency, waited_for_key=waited)
        answer = await self._append(head, started)
        if not isinstance(answer, Refused):
            return Claimed(answer, attempt, taken)
        if isinstance(taken, HeldSlot):
            # Back to its place in the line; if it turns out to be over, it is forgotten.
            await taken.release(retry_at=self._tools.environment.now())
        return answer

    async def _outdate(self, delivery: Delivery, head: Head, rival: Contested) -> Head | Refused:
        """Whoever has the job's slot and has not started will be refused by this note."""
        note = e.StaleCompletionIgnored(
            **self._said(delivery, head.status.tries),
            lost_attempt=rival.token,
            reason=f"worker {rival.instance} took a slot for the job and did not start it",
        )
        return await self._append(head, note)

    async def _come_again(self, delivery: Delivery, error: JobsError) -> None:
        log.error(
            "the key of job %s cannot be read or changed; the job is delivered again in %g s: %s",
            delivery.job.job_id,
            _AFTER_TROUBLE.delay.total_seconds(),
            error,
            extra={"job": delivery.job.job_id, "error": str(error)},
        )
        await delivery.answer(_AFTER_TROUBLE)

    async def _follow(
        self, delivery: Delivery, head: Head, decision: NotStartable
    ) -> Head | Refused | None:
        """Do what was decided; None: the delivery is answered."""
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
        """A job that is over leaves nothing in its key, before the answer (design D15)."""
        if self._desk is not None and head.status.is_over:
            await self._desk.forget(delivery)
        await delivery.answer(answer)

    async def _append(self, head: Head, event: e.Event) -> Head | Refused:
        telemetry = self._tools.telemetry
        with telemetry.appending(event):
            answer = await self._tools.events.try_append(head, event)
            if isinstance(answer, Refused):
                telemetry.refused()
        if not isinstance(answer, Refused):
            telemetry.count(event)
        return answer

    async def _after(self, delivery: Delivery, refusal: Refused) -> Head | None:
        head = await self._tools.events.head_since(delivery.job, refusal, shared=self._queue.shared)
        if head is not None:
            delivery.head = head
        return head

    async def _step(
        self, delivery: Delivery, status: JobStatus, decision: NotStartable
    ) -> _Step | Answer:
        match decision:
            case TakeOver(lost):
                return await self._take_over(delivery, status, lost)
            case MarkDead(lost):
                return await self._bury(delivery, status, lost)
            case Expire():
                said = self._said(delivery, status.tries)
                return _Step(e.Expired(**said, by="worker", reason="the deadline passed"), Ack())
            case RedeliverLater(delay):
                return Nak(delay)
            case Discard(reason):
                log.info(
                    "a work message of job %s was dropped: %s",
                    delivery.job.job_id,
                    reason,
                    extra={"job": delivery.job.job_id, "reason": reason},
                )
                return Ack()
            case Ignore(reason):
                log.info(
                    "an old delivery of job %s was ignored: %s",
                    delivery.job.job_id,
                    reason,
                    extra={"job": delivery.job.job_id, "reason": reason},
                )
                return NoAck()

    async def _take_over(
        self, delivery: Delivery, status: JobStatus, lost: Attempt | None
    ) -> _Step:
        error = await self._loss(delivery, status, lost)
        said = self._said(delivery, status.tries)
        log.warning(
            "job %s is taken over after try %s was lost: %s: %s",
            delivery.job.job_id,
            status.tries,
            error.type,
            error.message,
            extra={"job": delivery.job.job_id, "why": error.type},
        )
        return _Step(e.RetryScheduled(**said, attempt=lost, error=error))

    async def _bury(self, delivery: Delivery, status: JobStatus, lost: Attempt | None) -> _Step:
        error = await self._loss(delivery, status, lost)
        said = self._said(delivery, status.tries)
        return _Step(
            e.Dead(**said, attempt=lost, error=error), Term(f"dead after {status.tries} tries")
        )

    async def _loss(self, delivery: Delivery, status: JobStatus, lost: Attempt | None) -> JobError:
        """Why the attempt did not end: its worker is dead, or alive and did not renew its lease."""
        job, tools = delivery.job, self._tools
        death = None
        if lost is not None:
            worker = PresenceSubject(job.service, job.job_type, lost.instance)
            death = await tools.presence.death_reason(worker, consumer_of(job.service, self._queue))
        kind = Interruption.WORKER_DEATH if death else Interruption.VISIBILITY_TIMEOUT
        who = f"worker {lost.instance}" if lost else "the worker"
        what = death or f"did not renew its lease within {tools.ack_wait:g} s"
        return JobError(
            type=kind, message=f"{who} {what}", tries=status.tries, at=tools.environment.now()
        )

    def _said(self, delivery: Delivery, tries: int) -> e.EventFields:
        return {
            "job": delivery.job,
            "context": delivery.begun.context,
            "at": self._tools.environment.now(),
            "tries": tries,
        }


def _log_death(dead: e.Dead, max_tries: int) -> None:
    job, error = dead.job, dead.error
    log.error(
        "job %s of %s/%s died after %s of %s tries: %s: %s",
        *(job.job_id, job.service, job.job_type, dead.tries, max_tries, error.type, error.message),
        extra={"job": job.job_id, "why": error.type},
    )
