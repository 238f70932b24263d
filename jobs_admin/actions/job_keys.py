"""Changes to the keys of jobs by operators and maintenance.

The limits of a key are part of its declaration, which the admin runtime does not have, so it keeps
the limits that are in the key's state.
"""

from __future__ import annotations

import logging
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from jobs_admin.actions.guarded_append import GuardedAppender
from jobs_admin.actions.key_buckets import KeyBucketNotPermitted
from trellis_jobs.errors import JobsError, KeyStateMalformed, NotPermitted
from trellis_jobs.jetstream.keys.bucket import KeyBucket
from trellis_jobs.jetstream.keys.read import read_key
from trellis_jobs.model import events as e
from trellis_jobs.model import subjects
from trellis_jobs.model.identity import JobAddress
from trellis_jobs.model.keys import slots as key_slots
from trellis_jobs.model.keys.fencing import fencing_event, is_takeover, lost_with_worker
from trellis_jobs.model.keys.state import (
    KEYS_BUCKET,
    KeyAddress,
    KeyState,
    Slot,
    Waiting,
    waiting_entry,
)
from trellis_jobs.model.keys.template import JobKey
from trellis_jobs.model.values import replace
from trellis_jobs.wire.keys import Malformed

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime, timedelta

    from jobs_admin.actions.key_buckets import KeyBuckets
    from jobs_admin.actions.key_leases import HeldKey, Leases
    from trellis_jobs.jetstream.client.connection import Connection
    from trellis_jobs.jetstream.keys.read import StoredKey
    from trellis_jobs.jetstream.log.event_log import EventLog, Latest
    from trellis_jobs.model.concurrency import Concurrency
    from trellis_jobs.model.job_status import Head

log = logging.getLogger(__name__)

_HASH: Final = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class Released:
    """`head` is None when the job is not in the log, so that no event was recorded."""

    head: Head | None
    slot: Slot


@dataclass(frozen=True, slots=True)
class NoSlot:
    """The job does not hold the key."""


@dataclass(frozen=True, slots=True)
class StillRenewed:
    """The lease of the slot has not expired; `left` is how long it lasts unless renewed."""

    slot: Slot
    left: timedelta


class JobKeys:
    def __init__(
        self,
        connection: Connection,
        events: EventLog,
        leases: Leases,
        buckets: KeyBuckets,
        now: Callable[[], datetime],
    ) -> None:
        self.leases = leases
        self.buckets = buckets
        self._connection = connection
        self._bucket = KeyBucket(connection, now)
        self._appender = GuardedAppender(connection, events)
        self._now = now

    async def key_of(self, job: JobAddress, held: Concurrency | None) -> KeyAddress | None:
        """Return the job's key, or None if it has none.

        If nothing names the bucket of the queue, this assumes the default one.
        """
        if held is None or not is_key_hash(held.key_hash):
            return None
        bucket = await self.buckets.of(job.service, job.job_type) or KEYS_BUCKET
        return KeyAddress(job.service, job.job_type, held.key_hash, bucket)

    async def read(self, key: KeyAddress) -> KeyState | None:
        """Read a key's state from the bucket, with the limits that are stored there."""
        stored = await self._stored(key)
        return None if stored is None else stored.state

    async def read_leases(self, key: KeyAddress) -> HeldKey | None:
        """Read a key's state, and which leases have expired."""
        stored = await self._stored(key)
        return None if stored is None else await self.leases.observe(stored)

    async def withdraw(self, job: JobAddress, held: Concurrency | None) -> None:
        """Remove a job that has ended, or was moved to a later time, from its key's queue.

        Its slot, if it has one, is freed by its worker, because the handler may still be cleaning
        up. Key repair frees the slot of a dead worker once its lease has expired.
        """
        try:
            key = await self.key_of(job, held)
            if key is not None:
                await self._apply(key, lambda state: key_slots.withdraw(state, job.job_id))
        except JobsError as error:
            log.warning(
                "job %s could not be removed from the queue of its key; key repair will do it: %s",
                job.job_id,
                error,
                extra={"job": job.job_id, "error": str(error)},
            )

    async def requeue(self, retried: e.Retried) -> None:
        """Queue the job under its key before its event, even if the queue is full.

        A key without a state is free, and its limits are unknown, so nothing is written. A job
        can run without an entry in the queue, so an error here does not stop the retry.
        """
        waiting = waiting_entry(retried)
        try:
            key = await self.key_of(retried.job, retried.concurrency)
            if key is not None:
                await self._apply(key, lambda state: key_slots.Removed(_requeued(state, waiting)))
        except JobsError as error:
            log.warning(
                "job %s could not be queued under its key, and will run without an entry there: %s",
                waiting.job_id,
                error,
                extra={"job": waiting.job_id, "error": str(error)},
            )

    async def forget(self, key: KeyAddress, seen: KeyState, *job_ids: str) -> None:
        """Remove ended jobs from a key, and those of their slots that are in `seen`."""
        await self._apply(key, lambda state: key_slots.forget(state, *job_ids, seen=seen))

    async def release(
        self, key: KeyAddress, job_id: str, because: str
    ) -> Released | NoSlot | StillRenewed:
        """Free a slot whose lease has expired: record it in the log first, then drop it (design 5).

        The slot of a worker that was declared dead can be freed before that, because an operator
        can know that the process is gone. `because` says who requested it, and why.
        """
        held = await self.read_leases(key)
        slot = None if held is None else held.state.slot_of(job_id)
        if held is None or slot is None:
            return NoSlot()
        state, job = held.state, JobAddress(key.service, key.job_type, job_id)
        if slot.token not in held.expired and not await self._is_lost_with_worker(job, slot):
            return StillRenewed(slot, held.remaining[slot.token])
        latest = await self._appender.current(job)
        appended = None
        if latest is not None:
            appended = await self._appender.append(
                job, latest, lambda newest: self._fencing(newest, job, state, slot, because)
            )
        counted = is_takeover(appended.head.status if appended else None)
        await self._apply(key, lambda now: key_slots.drop(now, slot.token, counted=counted))
        return Released(appended.head if appended else None, slot)

    async def _is_lost_with_worker(self, job: JobAddress, slot: Slot) -> bool:
        for kind in (e.EventKind.DEAD, e.EventKind.RETRY):
            newest = await self._appender.newest(job, kind)
            if newest is not None and lost_with_worker(newest.event, slot.token):
                return True
        return False

    def _fencing(
        self, latest: Latest, job: JobAddress, state: KeyState, slot: Slot, because: str
    ) -> e.Event:
        reason = (
            f"{because}; worker {slot.instance} had not renewed its slot of key {state.display!r} "
            f"since {slot.heartbeat_at:%Y-%m-%d %H:%M:%S} UTC"
        )
        fields = latest.event_fields(job, self._now())
        key = JobKey(state.display, state.address.hash)
        return fencing_event(latest.head.status, fields, key=key, slot=slot, reason=reason)

    async def _stored(self, key: KeyAddress) -> StoredKey | None:
        try:
            found = await read_key(self._connection, key)
        except NotPermitted as refused:
            raise KeyBucketNotPermitted(key.bucket, refused) from refused
        if isinstance(found, Malformed):
            raise KeyStateMalformed(key.hash, subjects.key_state(key), found.reason)
        return found

    async def _apply(self, key: KeyAddress, move: Callable[[KeyState], key_slots.Removed]) -> None:
        stored = await self.read(key)
        if stored is not None:
            await self._bucket.apply(replace(stored, active=(), queued=()), move)


def is_key_hash(text: str) -> bool:
    return _HASH.fullmatch(text) is not None


def _requeued(state: KeyState, waiting: Waiting) -> KeyState:
    """Queue the new run at the end, and drop the entry of an earlier run."""
    return key_slots.enqueue(key_slots.withdraw(state, waiting.job_id).state, waiting)
