"""One claimed job to its end: run, settle, release its key, answer."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from trellis_jobs.errors import PayloadTooLarge
from trellis_jobs.jetstream.log.event_log import Lost
from trellis_jobs.model.job_errors import Interruption, JobError
from trellis_jobs.model.notes import NOTHING_NOTED, Notes
from trellis_jobs.model.settlement import (
    Ack,
    Answer,
    Fatal,
    Interrupted,
    Nak,
    NoAck,
    Outcome,
    Retryable,
    Settlement,
    settle,
    superseded_note,
)
from trellis_jobs.worker.invoke import invoke_handler
from trellis_jobs.worker.outcome_log import log_outcome, log_too_late
from trellis_jobs.worker.running_job import RunningJob, StopReason
from trellis_jobs.worker.settle_throttle import SettleThrottle

if TYPE_CHECKING:
    from collections.abc import Callable, MutableMapping

    from trellis_jobs.jetstream.work.delivery import Delivery
    from trellis_jobs.worker.claimed import Claimed
    from trellis_jobs.worker.contract_gate import OtherContracts
    from trellis_jobs.worker.handlers import Handler
    from trellis_jobs.worker.slot_acquirer import HeldSlot
    from trellis_jobs.worker.worker_context import WorkerContext

log = logging.getLogger(__name__)

# Too large for the server, or nothing that JSON has a form for.
_UNWRITABLE: Final = (PayloadTooLarge, TypeError, ValueError)


class AttemptRunner:
    """`running` is the queue's table of attempts in progress, by job id.

    `others` knows whether a job that does not fit here fits the contract of another worker.
    """

    def __init__(
        self,
        handler: Handler,
        tools: WorkerContext,
        running: MutableMapping[str, RunningJob],
        others: OtherContracts | None = None,
    ) -> None:
        self._others = others
        self._handler = handler
        self._tools = tools
        self._running = running
        self._turns = SettleThrottle()

    async def run(
        self, delivery: Delivery, claimed: Claimed, handler_ended: Callable[[], None]
    ) -> None:
        """`handler_ended` is called once another may run: the rest is writing.

        Not before the slot of a key is left: the next job of the key would come and have to wait.
        """
        running = RunningJob(delivery, claimed, self._handler.queue, self._tools)
        job_id = delivery.job.job_id
        earlier = self._running.get(job_id)
        if earlier is not None:
            # By the log the job is not its any more, and from here on nobody watches it.
            earlier.stop(StopReason.LOST)
        self._running[job_id] = running
        if job_id in self._tools.end_hints:
            running.hint_end()
        try:
            with self._tools.telemetry.processing(delivery.job, running.terms.context):
                outcome = await self._perform(running)
                if not self._turns.pass_now():
                    await self._turns.wait()
                if running.slot is None:
                    handler_ended()
                answer = await self._settle_somehow(running, outcome)
                if running.slot is not None:
                    await self._leave_key(running.slot, answer)
                await running.delivery.answer(answer)
        finally:
            running.release()
            if self._running.get(job_id) is running:
                del self._running[job_id]

    async def abandon(self, running: RunningJob) -> None:
        """The job goes back without its handler, which goes on: nobody else may have its slot."""
        await running.delivery.answer(await self._settle_somehow(running, Interrupted()))

    async def _leave_key(self, slot: HeldSlot, answer: Answer) -> None:
        """After the outcome, before the answer: ack last (design D15)."""
        retry_at = None
        if isinstance(answer, Nak):
            retry_at = self._tools.environment.now() + answer.delay
        self._tools.leases.drop_slot(slot.lease)
        await slot.release(retry_at=retry_at)

    async def _settle_somehow(self, running: RunningJob, outcome: Outcome) -> Answer:
        """What cannot be written must not cost the outcome: first the notes go, then the result."""
        try:
            return await self._settle(running, outcome)
        except _UNWRITABLE as error:
            reason = str(error)
        try:
            answer = await self._settle(running, outcome, bare=True)
        except _UNWRITABLE as error:
            return await self._settle(running, Fatal(self._unwritable(running, error)), bare=True)
        log.warning(
            "the open log lines and progress of job %s cannot be stored and are left out: %s",
            running.terms.job.job_id,
            reason,
            extra={"job": running.terms.job.job_id, "error": reason},
        )
        return answer

    async def _perform(self, running: RunningJob) -> Outcome:
        environment, telemetry = self._tools.environment, self._tools.telemetry
        if telemetry.measures and running.terms.tries == 1:
            waited = environment.now() - running.delivery.begun.at
            telemetry.waited(running.terms.job, max(0.0, waited.total_seconds()))
        started = environment.monotonic()
        outcome = await invoke_handler(self._handler, running, environment)
        telemetry.ran(running.terms.job, environment.monotonic() - started)
        if self._others is not None and isinstance(outcome, Fatal):
            outcome = await self._others.judge(outcome, running.delivery)
        if isinstance(outcome, (Retryable, Fatal)):
            telemetry.failed(outcome.error)
        return outcome

    async def _settle(self, running: RunningJob, outcome: Outcome, *, bare: bool = False) -> Answer:
        now, random = self._tools.environment.now(), self._tools.environment.random()

        def decide(notes: Notes) -> Settlement:
            kept = NOTHING_NOTED if bare else notes
            return settle(outcome, running.terms, at=now, random=random, notes=kept)

        settled = await running.voice.settle(decide)
        if settled is None:
            return NoAck()
        settlement, appended = settled
        if isinstance(appended, Lost):
            log_too_late(running, settlement, appended)
            return await self._too_late(running, appended)
        if settlement.event is not None:
            self._tools.telemetry.count(settlement.event)
        log_outcome(running, settlement)
        if isinstance(settlement.answer, NoAck) and appended.status.is_over:
            return Ack()
        return settlement.answer

    async def _too_late(self, running: RunningJob, lost: Lost) -> Answer:
        """The job is somebody else's, or over: leave a note; acknowledge only what is over."""
        if lost.head is None:
            return Ack()
        note = superseded_note(running.terms, lost.reason, self._tools.environment.now())
        await self._tools.events.append(lost.head, note, shared=self._handler.queue.shared)
        return Ack() if lost.head.status.is_over else NoAck()

    def _unwritable(self, running: RunningJob, error: Exception) -> JobError:
        return JobError(
            type=Interruption.RESULT_INVALID,
            message=f"the result cannot be stored: {error}",
            tries=running.terms.tries,
            at=self._tools.environment.now(),
        )
