"""Acquires and releases the slots of keys for the attempts of one queue."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

from trellis_jobs.errors import JobsError, KeyUnresolvable
from trellis_jobs.jetstream.keys.slot_lease import SlotLease
from trellis_jobs.model.keys.fencing import concurrency_of
from trellis_jobs.model.keys.slots import Acquired, Held
from trellis_jobs.model.keys.state import Slot, Waiting, waiting_entry
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
class WaitForKey:
    """All slots of the key are taken, so the job has to wait."""

    key: JobKey


@dataclass(frozen=True, slots=True)
class Contested:
    """Another attempt of the same job holds the slot, and may be about to start."""

    token: str
    instance: str


@dataclass(frozen=True, slots=True)
class Keyless:
    """The payload has no value for the key. Such a job starts and fails (design D3)."""

    reason: str


@dataclass(eq=False, slots=True)
class HeldSlot:
    """The slot of one attempt, held from before its `started` until after its outcome."""

    key: JobKey
    lease: SlotLease
    concurrency: Concurrency
    _waiting: Waiting
    _keys: KeyCoordinator

    async def release(self, *, retry_at: datetime | None = None) -> None:
        """With `retry_at` the job waits in its key for the next try, in order of age.

        A slot that cannot be released now becomes free when its lease ends or its job returns.
        """
        requeue = None if retry_at is None else replace(self._waiting, not_before=retry_at)
        try:
            await self._keys.release(self.key, self.lease.token, requeue=requeue)
        except JobsError as error:
            log.warning(
                "could not release the slot of key %s, it stays taken until its lease ends: %s",
                self.key.display,
                error,
                extra={"key": self.key.display, "error": str(error)},
            )


class SlotAcquirer:
    def __init__(self, keys: KeyCoordinator, context: WorkerContext) -> None:
        self.keys = keys
        self._context = context

    async def acquire(
        self,
        delivery: Delivery,
        head: Head,
        attempt: Attempt,
        *,
        may_start: bool,
        may_overtake: bool,
    ) -> HeldSlot | WaitForKey | Contested | Keyless:
        try:
            key = self.keys.key_of(delivery.begun)
        except KeyUnresolvable as error:
            return Keyless(str(error))
        if not may_start:
            return WaitForKey(key)
        requested_at = self._context.environment.monotonic()
        slot, waiting = self._slot(delivery, head, attempt), waiting_entry(delivery.begun)
        acquired = await self.keys.acquire(key, slot, waiting, may_overtake=may_overtake)
        if isinstance(acquired, Held):
            return Contested(acquired.slot.token, acquired.slot.instance)
        if not isinstance(acquired, Acquired):
            return WaitForKey(key)
        lease = SlotLease(self.keys.empty(key), slot, self.keys.key_policy, requested_at)
        return HeldSlot(key, lease, concurrency_of(key, slot), waiting, self.keys)

    async def forget(self, delivery: Delivery) -> None:
        """Removes a job that is over from its key."""
        try:
            await self.keys.forget(self.keys.key_of(delivery.begun), delivery.job.job_id)
        except JobsError as error:
            log.warning(
                "could not remove the ended job %s from its key; the next job of the key removes "
                "it: %s",
                delivery.job.job_id,
                error,
                extra={"job": delivery.job.job_id, "error": str(error)},
            )

    def _slot(self, delivery: Delivery, head: Head, attempt: Attempt) -> Slot:
        now = self._context.environment.now()
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
