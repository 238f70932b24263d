"""Where attempts of a keyed queue get their slots, and give them back."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

from trellis_jobs.errors import JobsError, KeyUnresolvable
from trellis_jobs.jetstream.keys.coordinator import concurrency_of
from trellis_jobs.jetstream.keys.slot_lease import SlotLease
from trellis_jobs.model.keys.slots import Acquired, Held
from trellis_jobs.model.keys.state import Slot, Waiting
from trellis_jobs.model.values import replace

if TYPE_CHECKING:
    from datetime import datetime

    from trellis_jobs.jetstream.keys.coordinator import KeyCoordinator
    from trellis_jobs.jetstream.work.delivery import Delivery
    from trellis_jobs.model.attempts import Attempt
    from trellis_jobs.model.concurrency import Concurrency
    from trellis_jobs.model.job_status import Head
    from trellis_jobs.model.keys.template import JobKey
    from trellis_jobs.worker.worker_context import WorkerContext

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Waits:
    """Others hold the key: the job has to wait for it."""

    key: JobKey


@dataclass(frozen=True, slots=True)
class Contested:
    """An attempt of this very job has its slot, and may be about to start: the log must move on."""

    token: str
    instance: str


@dataclass(frozen=True, slots=True)
class Keyless:
    """The payload has no value where the key points: such a job starts, and fails (design D3)."""

    reason: str


@dataclass(eq=False, slots=True)
class HeldSlot:
    """The slot of one attempt, from before its `started` until after its outcome."""

    key: JobKey
    lease: SlotLease
    concurrency: Concurrency
    _waiting: Waiting
    _keys: KeyCoordinator

    async def release(self, *, retry_at: datetime | None = None) -> None:
        """With `retry_at` the job waits for its next try, in its place by age.

        What cannot be released now ends by itself: with its lease, or when its job comes again.
        """
        requeue = None if retry_at is None else replace(self._waiting, not_before=retry_at)
        try:
            await self._keys.release(self.key, self.lease.token, requeue=requeue)
        except JobsError as error:
            log.warning(
                "the slot of key %s was not released and stays taken until its lease ends: %s",
                self.key.display,
                error,
                extra={"key": self.key.display, "error": str(error)},
            )


class SlotAcquirer:
    def __init__(self, keys: KeyCoordinator, tools: WorkerContext) -> None:
        self.keys = keys
        self._tools = tools

    async def take(
        self, delivery: Delivery, head: Head, attempt: Attempt, *, may_overtake: bool
    ) -> HeldSlot | Waits | Contested | Keyless:
        try:
            key = self.keys.key_of(delivery.begun)
        except KeyUnresolvable as error:
            return Keyless(str(error))
        asked_at = self._tools.environment.monotonic()
        slot, waiting = self._slot(delivery, head, attempt), waiting_of(delivery)
        acquired = await self.keys.acquire(key, slot, waiting, may_overtake=may_overtake)
        if isinstance(acquired, Held):
            return Contested(acquired.slot.token, acquired.slot.instance)
        if not isinstance(acquired, Acquired):
            return Waits(key)
        lease = SlotLease(self.keys.empty(key), slot, self.keys.key_policy, asked_at)
        return HeldSlot(key, lease, concurrency_of(key, slot), waiting, self.keys)

    async def forget(self, delivery: Delivery) -> None:
        """The job is over: nothing of it may stay in its key."""
        try:
            await self.keys.forget(self.keys.key_of(delivery.begun), delivery.job.job_id)
        except JobsError as error:
            log.warning(
                "job %s is over but was not removed from its key; the next job of the key does "
                "that: %s",
                delivery.job.job_id,
                error,
                extra={"job": delivery.job.job_id, "error": str(error)},
            )

    def _slot(self, delivery: Delivery, head: Head, attempt: Attempt) -> Slot:
        now = self._tools.environment.now()
        return Slot(
            job_id=delivery.job.job_id,
            token=attempt.id,
            instance=attempt.instance,
            started_at=now,
            heartbeat_at=now,
            expires_at=now + self.keys.key_policy.heartbeat_ttl,
            tries=head.status.tries + 1,
            since=head.sequence,
            context=delivery.begun.context,
        )


def waiting_of(delivery: Delivery) -> Waiting:
    begun = delivery.begun
    return Waiting(
        job_id=delivery.job.job_id,
        created_at=begun.at,
        request_id=begun.context.request_id,
        context=begun.context,
    )
