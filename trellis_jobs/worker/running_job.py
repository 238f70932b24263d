"""One attempt while it runs: its lease, and what may stop it; its voice is in voice.py."""

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
from trellis_jobs.worker.end_watch import EndCheck
from trellis_jobs.worker.slot_acquirer import HeldSlot, Keyless

if TYPE_CHECKING:
    import asyncio

    from trellis_jobs.contract.declaration import JobType
    from trellis_jobs.jetstream.work.delivery import Delivery
    from trellis_jobs.model.job_status import Head
    from trellis_jobs.model.notes import LogLevel, Progress
    from trellis_jobs.worker.claimed import Claimed
    from trellis_jobs.worker.worker_context import WorkerContext

log = logging.getLogger(__name__)


class StopReason(StrEnum):
    """Why a handler is told to stop before it is done."""

    ENDED = "the job ended"
    LOST = "another attempt has the job"
    UNSAFE = "its slot of the key may go to another job"
    SHUTDOWN = "the worker shuts down"


# After these the delivery is not renewed: somebody else may have it, or shall have it soon.
_NOT_OURS: Final = frozenset({StopReason.ENDED, StopReason.LOST, StopReason.UNSAFE})


class RunningJob:
    """What the rest of the worker, and the handler through its ActiveJob, have of an attempt."""

    __slots__ = (
        "_end_check",
        "_handler",
        "_looked_at",
        "_queue",
        "_timed_out",
        "_tools",
        "_verifying",
        "delivery",
        "keyless",
        "lease",
        "raised",
        "slot",
        "stop_reason",
        "terms",
        "voice",
    )

    def __init__(
        self,
        delivery: Delivery,
        claimed: Claimed,
        queue: JobType[Any, Any],
        tools: WorkerContext,
    ) -> None:
        self.delivery = delivery
        self.slot = claimed.slot if isinstance(claimed.slot, HeldSlot) else None
        self.keyless = claimed.slot if isinstance(claimed.slot, Keyless) else None
        self.terms = AttemptContext(
            delivery.job,
            delivery.begun.context,
            claimed.attempt,
            claimed.head.status.tries,
            claimed.head.status.max_tries,
            queue.retry,
            queue.dead_letters,
            _is_last(delivery, queue),
            self.slot.concurrency if self.slot else None,
        )
        self.stop_reason: StopReason | None = None
        self.raised: BaseException | None = None
        self.lease = delivery.lease
        self._looked_at = self.lease.renewed_at
        tools.leases.keep(self.lease)
        if self.slot is not None:
            tools.leases.keep_slot(self.slot.lease)
        self.voice = AttemptLog(claimed.head, self.terms, queue, tools, self._not_mine)
        self._queue = queue
        self._tools = tools
        self._end_check: EndCheck | None = None
        self._verifying = self._timed_out = False
        self._handler: asyncio.Task[Any] | None = None

    @property
    def has_ended(self) -> bool:
        return self.stop_reason is not None or self._timed_out

    @property
    def key_lease(self) -> KeyLease | None:
        if self.slot is None:
            return None
        lease, now = self.slot.lease, self._tools.environment.monotonic()
        return KeyLease(lease.heartbeat_at, lease.expires_at, not lease.is_over(now))

    def time_out(self) -> None:
        """The attempt is over; a handler in a thread cannot be stopped, but can look."""
        self._timed_out = True

    @property
    def has_secrets(self) -> bool:
        return bool(self._secrets or self._queue.result.secrets)

    @property
    def _secrets(self) -> tuple[str, ...]:
        return self.delivery.begun.secrets or self._queue.payload.secrets

    def scrub(self, text: str) -> str:
        """A text as it may be stored: without the secrets of the job's payload."""
        if not self._secrets:
            return text
        return scrubbed(text, secret_texts(self.delivery.begun.payload, self._secrets))

    def note_progress(self, progress: Progress) -> None:
        self._tools.on_loop(self.voice.progress, progress)

    def note_log(self, level: LogLevel, message: str) -> None:
        self._tools.on_loop(self.voice.line, level, message)

    def renew_now(self) -> None:
        self._tools.on_loop(lambda: self._tools.background.spawn(self._renew_now()))

    def release(self) -> None:
        """The attempt is over here, however it ended: nothing is renewed or looked at any more."""
        self._end_check = None
        self._tools.leases.drop(self.lease)
        if self.slot is not None:
            self._tools.leases.drop_slot(self.slot.lease)

    def enter_handler(self) -> None:
        self._handler = self._tools.current_task()

    def is_handled_by(self, task: asyncio.Task[Any]) -> bool:
        return self._handler is task

    def leave_handler(self) -> None:
        self._handler = None

    def stop(self, reason: StopReason) -> None:
        """Tell the handler, once: `job.cancelled` turns true and its task is cancelled."""
        if self.stop_reason is not None or self.voice.is_silent:
            return
        self.stop_reason = reason
        if reason in _NOT_OURS:
            self._tools.leases.drop(self.lease)
        if self._handler is not None:
            self._handler.cancel()

    def check_slot(self, now: float) -> None:
        """A slot that is lost, or could not be renewed for too long, ends the attempt."""
        if self.slot is not None and self.slot.lease.is_over(now):
            self.stop(StopReason.UNSAFE)

    def lapsed(self) -> None:
        """The delivery was not renewed in time: ask the log whether the job is still ours.

        A handler that holds a key is stopped when nobody can be asked: its job may run elsewhere
        by now, end there, and let the next one of the key in.
        """
        if self.slot is not None and not self.delivery.is_connected:
            self.stop(StopReason.UNSAFE)
        else:
            self._tools.background.spawn(self.verify())

    async def verify(self) -> None:
        """After a gap in the renewals, a guarded heartbeat tells whether the job is still ours.

        Not for an attempt that is known not to be: its renewals would hide the message of a newer
        owner that died (design D7).
        """
        if self._verifying or self.stop_reason in _NOT_OURS:
            return
        self._verifying = True
        try:
            if await self.voice.heartbeat():
                await self._renew()
        finally:
            self._verifying = False

    def stems_from(self, delivery: Delivery) -> bool:
        """Whether this attempt was started from the same message, perhaps an earlier delivery."""
        return self.terms.attempt.work == delivery.delivered.work

    async def meet_again(self, delivery: Delivery) -> None:
        """The job was delivered although its handler runs here: go on under the newer delivery.

        Of a job that is this attempt's by the log, another message has nothing left to do. Without
        a look at the log it may be all that a later run has, or a job that was put back.
        """
        if not self.stems_from(delivery):
            await delivery.answer(Ack())
        elif delivery.delivered.number > self.delivery.delivered.number:
            # Renewed, and handed back, only once the job is known to be still this attempt's.
            delivery.lease, self.lease.reply = self.lease, delivery.reply
            self.delivery = delivery
            self.terms = replace(self.terms, is_last_delivery=_is_last(delivery, self._queue))
            log.info(
                "job %s was delivered again while it runs here; its handler goes on",
                delivery.job.job_id,
                extra={"job": delivery.job.job_id},
            )
            await self.verify()

    def hint_end(self) -> None:
        """The job may have ended."""
        if self._end_check is None:
            self._end_check = EndCheck(self._look, self._tools.background.spawn)
        self._end_check.hint()

    def look_now_and_then(self, now: float) -> None:
        """Hints can be lost: a job that runs for long is looked at once in an ack_wait."""
        if now - self._looked_at >= self._tools.ack_wait:
            self._looked_at = now
            self._tools.background.spawn(self._look_once())

    async def _look_once(self) -> None:
        with suppress(JobsError):
            await self._look()

    async def _look(self) -> bool:
        """True when nobody need look any more."""
        if self.voice.is_silent or self.stop_reason is not None:
            return True
        head = await self._tools.events.head(
            self.delivery.job, at_least=self.voice.head.sequence, shared=self._queue.shared
        )
        if not self._is_mine(head):
            self._not_mine(head)
        return False

    async def _renew_now(self) -> None:
        now = self._tools.environment.monotonic()
        if self.slot is not None and self.slot.lease.request_renewal(now):
            self._tools.leases.wake()
        if self.lease.has_lapsed(now):
            await self.verify()
        elif self.stop_reason not in _NOT_OURS:
            await self._renew()

    async def _renew(self) -> None:
        if await self.delivery.renew():
            self.lease.renewed_at = self._tools.environment.monotonic()

    def _not_mine(self, head: Head | None) -> None:
        """A job that became stale is over, but it was taken from this attempt: that is noted."""
        is_over = head is None or (head.status.is_over and head.status.state is not JobState.STALE)
        self.stop(StopReason.ENDED if is_over else StopReason.LOST)

    def _is_mine(self, head: Head | None) -> bool:
        return (
            head is not None
            and head.status.state is JobState.ACTIVE
            and head.status.owner == self.terms.attempt
        )


def _is_last(delivery: Delivery, queue: JobType[Any, Any]) -> bool:
    """The server will not deliver again: a queue may have asked for a limit (design D6)."""
    return queue.delivery_limit is not None and delivery.delivered.number >= queue.delivery_limit
