"""One attempt while it runs: its leases, and what may stop it. Its events are in attempt_log.py."""

from __future__ import annotations

import logging
from contextlib import suppress
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

from trellis_jobs.errors import JobsError
from trellis_jobs.model.redaction import scrubbed, secret_texts
from trellis_jobs.model.settlement import Ack, AttemptContext
from trellis_jobs.model.states import JobState
from trellis_jobs.model.values import replace
from trellis_jobs.worker.active_job import KeyLease
from trellis_jobs.worker.attempt_log import AttemptLog
from trellis_jobs.worker.end_watch import EndWatch
from trellis_jobs.worker.slot_acquirer import HeldSlot, Keyless
from trellis_jobs.worker.visibility import Visibility, visibility_of

if TYPE_CHECKING:
    import asyncio
    from datetime import timedelta

    from trellis_jobs.contract.declaration import JobType
    from trellis_jobs.jetstream.work.delivery import Delivery
    from trellis_jobs.model.job_status import Head
    from trellis_jobs.model.notes import LogLevel, Progress
    from trellis_jobs.worker.claimed import Claimed
    from trellis_jobs.worker.worker_context import WorkerContext

log = logging.getLogger(__name__)


class StopReason(StrEnum):
    """Why the worker stops a handler before it returns."""

    ENDED = "the job ended"
    LOST = "another attempt has the job"
    UNSAFE = "another job may get its slot of the key"
    HUNG = "its handler did not call heartbeat() in time"
    SHUTDOWN = "the worker is shutting down"


# After these the delivery is not renewed, because another attempt has it or should get it.
_OWNERSHIP_LOST: Final = frozenset(
    {StopReason.ENDED, StopReason.LOST, StopReason.UNSAFE, StopReason.HUNG}
)


class RunningJob:
    """A running attempt, as the worker sees it, and the backend of its handler's ActiveJob."""

    __slots__ = (
        "_checked_at",
        "_context",
        "_end_watch",
        "_handler_task",
        "_queue",
        "_timed_out",
        "_verifying",
        "_visibility",
        "attempt_context",
        "attempt_log",
        "delivery",
        "keyless",
        "lease",
        "raised",
        "slot",
        "stop_reason",
    )

    def __init__(
        self,
        delivery: Delivery,
        claimed: Claimed,
        queue: JobType[Any, Any],
        context: WorkerContext,
    ) -> None:
        self.delivery = delivery
        self.slot = claimed.slot if isinstance(claimed.slot, HeldSlot) else None
        self.keyless = claimed.slot if isinstance(claimed.slot, Keyless) else None
        self.attempt_context = AttemptContext(
            delivery.job,
            delivery.begun.context,
            claimed.attempt,
            claimed.head.status.tries,
            claimed.head.status.max_tries,
            queue.retry,
            queue.dead_letters,
            _is_last(delivery, queue),
            self.slot.concurrency if self.slot else None,
            claimed.head.status.snoozes,
            claimed.head.status.deadline,
        )
        self.stop_reason: StopReason | None = None
        self.raised: BaseException | None = None
        self.lease = delivery.lease
        self._checked_at = self.lease.renewed_at
        context.leases.keep(self.lease)
        if self.slot is not None:
            context.leases.keep_slot(self.slot.lease)
        self.attempt_log = AttemptLog(
            claimed.head, self.attempt_context, queue, context, self._on_lost
        )
        self._queue = queue
        self._context = context
        self._visibility = self._limited_visibility()
        self._end_watch: EndWatch | None = None
        self._verifying = self._timed_out = False
        self._handler_task: asyncio.Task[Any] | None = None

    @property
    def has_ended(self) -> bool:
        return self.stop_reason is not None or self._timed_out

    @property
    def is_worker_cancelled(self) -> bool:
        """Whether the worker's tasks were cancelled, and not only that of this attempt."""
        return self._context.background.are_cancelled

    @property
    def key_lease(self) -> KeyLease | None:
        if self.slot is None:
            return None
        lease, now = self.slot.lease, self._context.environment.monotonic()
        return KeyLease(lease.heartbeat_at, lease.expires_at, not lease.is_over(now))

    def time_out(self) -> None:
        """Makes `job.cancelled` True, because a handler in a thread cannot be stopped."""
        self._timed_out = True

    @property
    def has_secrets(self) -> bool:
        return bool(self._secrets or self._queue.result.secrets)

    @property
    def _secrets(self) -> tuple[str, ...]:
        return self.delivery.begun.secrets or self._queue.payload.secrets

    def scrub(self, text: str) -> str:
        """Returns the text without the secrets of the job's payload."""
        if not self._secrets:
            return text
        return scrubbed(text, secret_texts(self.delivery.begun.payload, self._secrets))

    def note_progress(self, progress: Progress) -> None:
        self._context.on_loop(self.attempt_log.progress, progress)

    def note_log(self, level: LogLevel, message: str) -> None:
        self._context.on_loop(self.attempt_log.add_line, level, message)

    @property
    def visibility(self) -> timedelta | None:
        """How long the handler may go without a heartbeat. None with automatic renewal."""
        return None if self._visibility is None else self._visibility.limit

    def _limited_visibility(self) -> Visibility | None:
        limit = visibility_of(self._queue, self.delivery.begun)
        if limit is None:
            return None
        leases = (self.lease,) if self.slot is None else (self.lease, self.slot.lease)
        monotonic = self._context.environment.monotonic
        return Visibility(limit, leases, monotonic, lambda: self.stop(StopReason.HUNG))

    def renew_now(self) -> None:
        if self._visibility is not None and self.stop_reason is None:
            self._visibility.extend()
        self._context.on_loop(lambda: self._context.background.spawn(self._renew_now()))

    def release(self) -> None:
        """Stops renewing and checking this attempt, which has ended."""
        self._end_watch = None
        self._context.leases.drop(self.lease)
        if self.slot is not None:
            self._context.leases.drop_slot(self.slot.lease)

    def enter_handler(self) -> None:
        self._handler_task = self._context.current_task()
        if self._visibility is not None:
            self._visibility.start()

    def is_handled_by(self, task: asyncio.Task[Any]) -> bool:
        return self._handler_task is task

    def leave_handler(self) -> None:
        self._handler_task = None
        if self._visibility is not None:
            self._visibility.stop()

    def stop(self, reason: StopReason) -> None:
        """Sets `job.cancelled` and cancels the handler's task, at the first call only."""
        if self.stop_reason is not None or self.attempt_log.is_closed:
            return
        self.stop_reason = reason
        if reason in _OWNERSHIP_LOST:
            self._context.leases.drop(self.lease)
        if self._handler_task is not None:
            self._handler_task.cancel()

    def check_slot(self, now: float) -> None:
        """Stops the attempt if its slot was lost or could not be renewed in time."""
        if self.slot is not None and self.slot.lease.is_over(now):
            self.stop(StopReason.UNSAFE)

    def handle_lapsed_lease(self) -> None:
        """Checks in the log, after a late renewal, whether the job still belongs to this attempt.

        A handler that holds a key is stopped if the server cannot be reached: its job may run
        elsewhere by now, end there, and let the next job of the key start.
        """
        if self.slot is not None and not self.delivery.is_connected:
            self.stop(StopReason.UNSAFE)
        else:
            self._context.background.spawn(self.verify())

    async def verify(self) -> None:
        """Appends a heartbeat. If the log refuses it, the job belongs to another attempt.

        Skipped for an attempt that is known to have lost its job: its renewals would delay the
        redelivery after the death of the new owner (design D7).
        """
        if self._verifying or self.stop_reason in _OWNERSHIP_LOST:
            return
        self._verifying = True
        try:
            if await self.attempt_log.heartbeat():
                await self._renew()
        finally:
            self._verifying = False

    def is_same_message(self, delivery: Delivery) -> bool:
        """Whether this attempt was started by an earlier delivery of the same message."""
        return self.attempt_context.attempt.work == delivery.delivered.work

    async def adopt_redelivery(self, delivery: Delivery) -> None:
        """Continues under a newer delivery of the job, whose handler still runs here.

        Acknowledges a delivery of another message: the caller has read in the log that this attempt
        owns the job, so that message is a duplicate. Without that read it could be the only message
        of a later run.
        """
        if not self.is_same_message(delivery):
            await delivery.answer(Ack())
        elif delivery.delivered.number > self.delivery.delivered.number:
            # It is renewed only after verify() has shown that this attempt still owns the job.
            delivery.lease, self.lease.reply = self.lease, delivery.reply
            self.delivery = delivery
            self.attempt_context = replace(
                self.attempt_context, is_last_delivery=_is_last(delivery, self._queue)
            )
            log.info(
                "job %s was delivered again while its handler runs here; the handler continues",
                delivery.job.job_id,
                extra={"job": delivery.job.job_id},
            )
            await self.verify()

    def hint_end(self) -> None:
        """Called when the job may have ended."""
        if self._end_watch is None:
            self._end_watch = EndWatch(self._check_end, self._context.background.spawn)
        self._end_watch.hint()

    def check_end_when_due(self, now: float) -> None:
        """Reads the log once in an ack_wait, because hints can be lost."""
        if now - self._checked_at >= self._context.ack_wait:
            self._checked_at = now
            self._context.background.spawn(self._check_end_once())

    async def _check_end_once(self) -> None:
        with suppress(JobsError):
            await self._check_end()

    async def _check_end(self) -> bool:
        """Returns True when no further check is needed."""
        if self.attempt_log.is_closed or self.stop_reason is not None:
            return True
        head = await self._context.events.head(
            self.delivery.job, at_least=self.attempt_log.head.sequence, shared=self._queue.shared
        )
        if not self._owns(head):
            self._on_lost(head)
        return False

    async def _renew_now(self) -> None:
        now = self._context.environment.monotonic()
        if self.slot is not None and self.slot.lease.request_renewal(now):
            self._context.leases.wake()
        if self.lease.has_lapsed(now):
            await self.verify()
        elif self.stop_reason not in _OWNERSHIP_LOST:
            await self._renew()

    async def _renew(self) -> None:
        if await self.delivery.renew():
            self.lease.renewed_at = self._context.environment.monotonic()

    def _on_lost(self, head: Head | None) -> None:
        """Stops the handler. A stale job is over, but counts as lost: this attempt notes that."""
        is_over = head is None or (head.status.is_over and head.status.state is not JobState.STALE)
        self.stop(StopReason.ENDED if is_over else StopReason.LOST)

    def _owns(self, head: Head | None) -> bool:
        return (
            head is not None
            and head.status.state is JobState.ACTIVE
            and head.status.owner == self.attempt_context.attempt
        )


def _is_last(delivery: Delivery, queue: JobType[Any, Any]) -> bool:
    """Whether the server will not deliver the message again, by the queue's limit (design D6)."""
    return queue.delivery_limit is not None and delivery.delivered.number >= queue.delivery_limit
