"""The keys of one queue: their states in the bucket, kept consistent with the log.

The log is written or read first, and the bucket after it (design 5). A process that dies in
between leaves an entry too many, never one too few; the next process that finds it removes it.
"""

from __future__ import annotations

import asyncio
import logging
import re
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from trellis_jobs.model.events import EventKind
from trellis_jobs.model.identity import JobAddress
from trellis_jobs.model.keys import slots as key_slots
from trellis_jobs.model.keys.backlog import Admission, Admitted, Replaced, WhenFull, admit
from trellis_jobs.model.keys.fencing import (
    NoFence,
    fence,
    fencing_event,
    is_takeover,
    lost_with_worker,
)
from trellis_jobs.model.keys.state import KeyAddress, KeyState, Slot, Waiting, waiting_entry
from trellis_jobs.model.keys.template import JobKey
from trellis_jobs.model.states import ENQUEUED, JobState

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from datetime import datetime

    from trellis_jobs.contract.declaration import JobType
    from trellis_jobs.contract.key_policy import KeyPolicy
    from trellis_jobs.jetstream.keys.bucket import KeyBucket
    from trellis_jobs.jetstream.log.event_log import EventLog, Latest
    from trellis_jobs.model.events import Begun, Created, Event

log = logging.getLogger(__name__)

# A reservation is followed by its `created` event within the timeout of a create; after twice that
# time, the process that made the reservation is gone.
ABANDONED_AFTER: Final = timedelta(seconds=60)
# How many waiting entries are checked when a key is full; the others move up and are checked later.
_MAX_WAITING_CHECKED: Final = 20
_FENCE_TIMEOUT: Final = 30.0
_KEY_HASH: Final = re.compile(r"[0-9a-f]{64}")


class KeyCoordinator:
    def __init__(
        self,
        service: str,
        queue: JobType[Any, Any],
        key_policy: KeyPolicy,
        bucket: KeyBucket,
        events: EventLog,
        now: Callable[[], datetime],
    ) -> None:
        self.key_policy = key_policy
        self._service = service
        self._queue = queue
        self._bucket = bucket
        self._events = events
        self._now = now

    @property
    def shared(self) -> bool:
        """Other runtimes write events of this queue too (design D25)."""
        return self._queue.shared

    def key_of(self, begun: Begun) -> JobKey:
        """Returns the key under which the job was admitted; the declaration may have changed."""
        recorded = begun.concurrency
        if recorded is not None and _KEY_HASH.fullmatch(recorded.key_hash):
            return JobKey(recorded.key, recorded.key_hash)
        return self.key_policy.template.resolve(begun.payload)

    def empty(self, key: JobKey) -> KeyState:
        """Returns the state of an unused key with the declared limits."""
        return KeyState(
            address=KeyAddress(self._service, self._queue.name, key.hash, self.key_policy.bucket),
            display=key.display,
            max_active=self.key_policy.max_active,
            max_queued=self.key_policy.max_queued,
        )

    async def watch(self, hint: Callable[[str], None]) -> Callable[[], Awaitable[None]]:
        """Call `hint` with the hash of each key that may have a free slot.

        Returns a function that ends the watch.
        """

        def on_update(key_hash: str, running: int | None) -> None:
            if running is None or running < self.key_policy.max_active:
                hint(key_hash)

        queue = (self._service, self._queue.name, self.key_policy.bucket)
        return await self._bucket.watch(queue, on_update)

    async def read_cached(self, key: JobKey) -> KeyState:
        """Returns the cached state of the key, which is old after a lost notification."""
        return await self._bucket.read_cached(self.empty(key))

    async def read(self, key: JobKey) -> KeyState:
        return await self._bucket.read(self.empty(key))

    async def admit(
        self, key: JobKey, waiting: Waiting, when_full: WhenFull | None = None
    ) -> Admission:
        """Admit the job; a refusal counts only after entries of ended jobs were removed.

        `when_full` replaces the policy of the queue.
        """
        policy = self.key_policy.stale_policy
        admission = await self._bucket.apply(
            self.empty(key), lambda state: admit(state, waiting, WhenFull.REJECT, policy)
        )
        if isinstance(admission, Admitted):
            return admission
        await self.forget_ended(key, admission.state)
        return await self._admit_by_policy(key, waiting, when_full or self.key_policy.when_full)

    async def preview(self, key: JobKey, created: Created) -> Admission:
        """What admit() would decide now. Writes nothing."""
        waiting, policy = waiting_entry(created), self.key_policy.stale_policy
        seen = await self.read(key)
        admission = admit(seen, waiting, WhenFull.REJECT, policy)
        if isinstance(admission, Admitted):
            return admission
        remaining = key_slots.forget(seen, *await self._gone(seen), seen=seen).state
        return admit(remaining, waiting, self.key_policy.when_full, policy)

    async def acquire(
        self, key: JobKey, slot: Slot, waiting: Waiting, *, may_overtake: bool
    ) -> key_slots.Acquisition:
        return await self._bucket.apply(
            self.empty(key),
            lambda state: key_slots.acquire(state, slot, waiting, may_overtake=may_overtake),
        )

    async def release(self, key: JobKey, token: str, *, requeue: Waiting | None = None) -> None:
        await self._bucket.apply(
            self.empty(key), lambda state: key_slots.release(state, token, requeue=requeue)
        )

    async def withdraw(self, key: JobKey, job_id: str) -> None:
        await self._bucket.apply(self.empty(key), lambda state: key_slots.withdraw(state, job_id))

    async def cancel_reservation(
        self, key: JobKey, reservation: Waiting, replaced: Waiting | None
    ) -> None:
        """Undo a reservation whose job was not created; a job that it replaced waits again,
        unless that job runs.
        """

        def undo(state: KeyState) -> key_slots.Removed:
            remaining = key_slots.withdraw(
                state, reservation.job_id, request_id=reservation.request_id
            ).state
            if replaced is None or remaining.slot_of(replaced.job_id) is not None:
                return key_slots.Removed(remaining)
            return key_slots.Removed(key_slots.enqueue(remaining, replaced))

        await self._bucket.apply(self.empty(key), undo)

    async def forget(self, key: JobKey, job_id: str) -> None:
        """Remove the entries of a job that has ended."""
        seen = await self.read(key)
        slot = seen.slot_of(job_id)
        if slot is None and not seen.is_queued(job_id):
            return
        # The log is read after the key, so that the slot of a new run is not removed.
        if await self._is_gone(job_id, slot.since if slot else 0, self._now()):
            await self._bucket.apply(
                self.empty(key), lambda state: key_slots.forget(state, job_id, seen=seen)
            )

    async def forget_ended(self, key: JobKey, seen: KeyState) -> None:
        """Remove the entries of jobs that have ended, or that were never created."""
        gone = await self._gone(seen)
        if gone:
            log.info(
                "finished jobs were removed from key %s: %s",
                key.display,
                ", ".join(gone),
                extra={"key": key.display, "jobs": gone},
            )
            await self._bucket.apply(
                self.empty(key), lambda state: key_slots.forget(state, *gone, seen=seen)
            )

    async def _gone(self, seen: KeyState) -> list[str]:
        """The jobs of a key that have ended, or that were never created.

        A job that ended because its worker counted as dead keeps its slot until its lease is over.
        """
        entries = [
            *((slot.job_id, slot.since, slot.started_at) for slot in seen.active),
            *(
                (waiting.job_id, 0, waiting.created_at)
                for waiting in seen.queued[:_MAX_WAITING_CHECKED]
            ),
        ]
        answers = await asyncio.gather(*(self._is_gone(*entry) for entry in entries))
        gone = [job_id for (job_id, *_), is_gone in zip(entries, answers, strict=True) if is_gone]
        for slot in seen.active:
            if slot.job_id in gone and await self._may_still_run(slot):
                gone.remove(slot.job_id)
        return gone

    async def evict(self, key: JobKey, slot: Slot) -> bool:
        """Fence the job of an expired lease in the log, then free its slot.

        Returns False if the lease was renewed. A server that is cut off from its cluster still
        serves reads but accepts no writes, so a write confirms the slot first.
        """
        seen = await self._bucket.apply(
            self.empty(key), lambda state: key_slots.confirm(state, slot)
        )
        if isinstance(seen, key_slots.SlotLost):
            return False
        log.warning(
            "the slot of job %s in key %s is freed: its lease ended without a renewal by worker %s",
            slot.job_id,
            key.display,
            slot.instance,
            extra={"key": key.display, "job": slot.job_id, "instance": slot.instance},
        )
        is_stale = await self._fence(key, slot)
        await self._bucket.apply(
            self.empty(key), lambda state: key_slots.drop(state, slot.token, counted=is_stale)
        )
        return True

    async def _admit_by_policy(
        self, key: JobKey, waiting: Waiting, when_full: WhenFull
    ) -> Admission:
        """If the reply to a replacing write is lost, the next attempt finds the job queued."""
        replaced: Replaced | None = None

        def try_admit(state: KeyState) -> Admission:
            nonlocal replaced
            admission = admit(state, waiting, when_full, self.key_policy.stale_policy)
            if isinstance(admission, Replaced):
                replaced = admission
            elif isinstance(admission, Admitted) and admission.state is not state:
                replaced = None
            return admission

        answer = await self._bucket.apply(self.empty(key), try_admit)
        return replaced if replaced is not None and isinstance(answer, Admitted) else answer

    async def _is_gone(self, job_id: str, since: int, entered_at: datetime) -> bool:
        """A delayed job reserves its place just before it is released, like a new job."""
        latest = await self.latest(job_id, since)
        if latest is None or latest.head.status.state is JobState.SCHEDULED:
            if self._now() - entered_at <= ABANDONED_AFTER:
                return False
            latest = await self._latest_from_leader(job_id)
        return latest is None or latest.head.status.state not in ENQUEUED

    async def _may_still_run(self, slot: Slot) -> bool:
        for kind in (EventKind.DEAD, EventKind.RETRY):
            last = await self._events.last(self._address(slot.job_id), kind)
            if last is not None and lost_with_worker(last.event, slot.token):
                return True
        return False

    async def latest(self, job_id: str, since: int = 0) -> Latest | None:
        """Returns a read not older than `since`, or None if the job does not exist."""
        job, shared = self._address(job_id), self.shared
        latest = await self._events.latest(job, shared=shared)
        if latest is None or latest.head.sequence >= since:
            return latest
        return await self._events.latest(job, at_least=since, shared=shared)

    async def _latest_from_leader(self, job_id: str) -> Latest | None:
        """Ask the leader, because a lagging replica may not have a new job yet."""
        return await self._events.latest_from_leader(self._address(job_id), shared=self.shared)

    def _address(self, job_id: str) -> JobAddress:
        return JobAddress(self._service, self._queue.name, job_id)

    async def _fence(self, key: JobKey, slot: Slot) -> bool:
        """Returns whether the job is stale now."""
        job = self._address(slot.job_id)
        latest = await self.latest(slot.job_id, slot.since)
        if latest is None:
            latest = await self._latest_from_leader(slot.job_id)
        if latest is None:
            return False
        reason = f"worker {slot.instance} did not renew its slot of key {key.display!r} in time"

        def plan(latest: Latest) -> Event | None:
            status = latest.head.status
            if isinstance(fence(status, slot.token), NoFence):
                return None
            fields = latest.event_fields(job, self._now())
            return fencing_event(status, fields, key=key, slot=slot, reason=reason)

        fenced = await self._events.append_planned(
            job, latest, plan, timeout=_FENCE_TIMEOUT, shared=self.shared
        )
        return fenced is not None and is_takeover(fenced.head.status)
