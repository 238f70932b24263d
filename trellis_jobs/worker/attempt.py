"""Runs one claimed job to its end: handler, outcome, slot of its key, acknowledgement."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from trellis_jobs.errors import PayloadTooLarge
from trellis_jobs.jetstream.log.event_log import Lost
from trellis_jobs.model.events import Dead, Failed
from trellis_jobs.model.job_errors import Interruption, JobError
from trellis_jobs.model.notes import NOTHING_NOTED, Notes
from trellis_jobs.model.settlement import (
    Ack,
    Answer,
    Fatal,
    Nak,
    NoAck,
    Outcome,
    Retryable,
    Settlement,
    Snoozed,
    settle,
    superseded_note,
)
from trellis_jobs.worker.invoke import invoke_handler, outcome_when_abandoned
from trellis_jobs.worker.outcome_log import log_outcome, log_too_late
from trellis_jobs.worker.running_job import RunningJob, StopReason
from trellis_jobs.worker.settle_throttle import SettleThrottle

if TYPE_CHECKING:
    from collections.abc import Callable, MutableMapping

    from trellis_jobs.jetstream.work.delivery import Delivery
    from trellis_jobs.worker.claimed import Claimed
    from trellis_jobs.worker.contract_gate import ContractGate
    from trellis_jobs.worker.handlers import Handler
    from trellis_jobs.worker.slot_acquirer import HeldSlot
    from trellis_jobs.worker.worker_context import WorkerContext

log = logging.getLogger(__name__)

# The event is larger than the server accepts, or JSON cannot represent it.
_UNSTORABLE: Final = (PayloadTooLarge, TypeError, ValueError)


class AttemptRunner:
    """`running` has the queue's attempts in progress, by job id.

    `contract_gate` decides whether a job that this worker cannot read is left to other workers.
    """

    def __init__(
        self,
        handler: Handler,
        context: WorkerContext,
        running: MutableMapping[str, RunningJob],
        contract_gate: ContractGate | None = None,
    ) -> None:
        self._contract_gate = contract_gate
        self._handler = handler
        self._context = context
        self._running = running
        self._throttle = SettleThrottle()

    async def run(
        self, delivery: Delivery, claimed: Claimed, release_slot: Callable[[], None]
    ) -> None:
        """Calls `release_slot` when another handler may start: what follows is writing only.

        A job with a key keeps its slot until the end: until its key is free, the job that would
        start instead could be the next one of the same key, which would only wait.
        """
        running = RunningJob(delivery, claimed, self._handler.queue, self._context)
        job_id = delivery.job.job_id
        earlier = self._running.get(job_id)
        if earlier is not None:
            # The log gave the job to the new attempt, and only one per job id is watched.
            earlier.stop(StopReason.LOST)
        self._running[job_id] = running
        if job_id in self._context.end_hints:
            running.hint_end()
        try:
            with self._context.telemetry.processing(delivery.job, running.attempt_context.context):
                outcome = await self._invoke(running)
                if not self._throttle.try_pass():
                    await self._throttle.wait()
                if running.slot is None:
                    release_slot()
                answer = await self._settle_with_fallback(running, outcome)
                if running.slot is not None:
                    await self._release_key_slot(running.slot, answer)
                await running.delivery.answer(answer)
        finally:
            running.release()
            if self._running.get(job_id) is running:
                del self._running[job_id]

    async def hand_back(self, running: RunningJob) -> None:
        """Puts the job back although its handler still runs, so the slot of its key stays taken."""
        outcome = outcome_when_abandoned(running, self._context.environment)
        await running.delivery.answer(await self._settle_with_fallback(running, outcome))

    async def _release_key_slot(self, slot: HeldSlot, answer: Answer) -> None:
        """Runs after the outcome and before the acknowledgement, which comes last (design D15)."""
        retry_at = None
        if isinstance(answer, Nak):
            retry_at = self._context.environment.now() + answer.delay
        self._context.leases.drop_slot(slot.lease)
        await slot.release(retry_at=retry_at)

    async def _settle_with_fallback(self, running: RunningJob, outcome: Outcome) -> Answer:
        """Leaves out the notes, and then the result, if the outcome cannot be stored with them."""
        try:
            return await self._settle(running, outcome)
        except _UNSTORABLE as error:
            reason = str(error)
        try:
            answer = await self._settle(running, outcome, without_notes=True)
        except _UNSTORABLE as error:
            return await self._settle(
                running, Fatal(self._unstorable_result(running, error)), without_notes=True
            )
        log.warning(
            "the last log lines and progress of job %s could not be stored and were dropped: %s",
            running.attempt_context.job.job_id,
            reason,
            extra={"job": running.attempt_context.job.job_id, "error": reason},
        )
        return answer

    async def _invoke(self, running: RunningJob) -> Outcome:
        environment, telemetry = self._context.environment, self._context.telemetry
        first = running.attempt_context.tries == 1 and not running.attempt_context.snoozes
        if telemetry.has_metrics and first:
            waited = environment.now() - running.delivery.begun.at
            telemetry.record_wait(running.attempt_context.job, max(0.0, waited.total_seconds()))
        started = environment.monotonic()
        outcome = await invoke_handler(self._handler, running, environment)
        telemetry.record_run(running.attempt_context.job, environment.monotonic() - started)
        if self._contract_gate is not None and isinstance(outcome, Fatal):
            outcome = await self._contract_gate.reclassify(outcome, running.delivery)
        if isinstance(outcome, (Retryable, Fatal)):
            telemetry.mark_failed(outcome.error)
        return outcome

    async def _settle(
        self, running: RunningJob, outcome: Outcome, *, without_notes: bool = False
    ) -> Answer:
        now, random = self._context.environment.now(), self._context.environment.random()

        def decide(notes: Notes) -> Settlement:
            kept = NOTHING_NOTED if without_notes else notes
            return settle(outcome, running.attempt_context, at=now, random=random, notes=kept)

        settled = await running.attempt_log.settle(decide)
        if settled is None:
            return NoAck()
        settlement, appended = settled
        if isinstance(appended, Lost):
            log_too_late(running, settlement, appended)
            return await self._too_late(running, appended)
        if settlement.event is not None:
            self._context.telemetry.count(settlement.event)
        if isinstance(outcome, Snoozed) and isinstance(settlement.event, Failed | Dead):
            self._context.telemetry.mark_failed(settlement.event.error)
        log_outcome(running, settlement)
        if isinstance(settlement.answer, NoAck) and appended.status.is_over:
            return Ack()
        return settlement.answer

    async def _too_late(self, running: RunningJob, lost: Lost) -> Answer:
        """Notes an outcome that came after the job ended or moved to another attempt.

        Acknowledges only if the job has ended: otherwise the message belongs to the other attempt.
        """
        if lost.head is None:
            return Ack()
        note = superseded_note(
            running.attempt_context, lost.reason, self._context.environment.now()
        )
        await self._context.events.append(lost.head, note, shared=self._handler.queue.shared)
        return Ack() if lost.head.status.is_over else NoAck()

    def _unstorable_result(self, running: RunningJob, error: Exception) -> JobError:
        return JobError(
            type=Interruption.RESULT_INVALID,
            message=f"the result cannot be stored: {error}",
            tries=running.attempt_context.tries,
            at=self._context.environment.now(),
        )
