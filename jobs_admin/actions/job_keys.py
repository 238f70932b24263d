"""The keys of jobs, changed by operators and by those who look after jobs.

The limits of a key are in its declaration, which nobody here knows: those that were last written
into its state are kept.
"""

from __future__ import annotations

import logging
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from jobs_admin.actions.guarded_append import GuardedAppender, said_of
from jobs_admin.actions.key_buckets import KeyBucketNotPermitted
from trellis_jobs.errors import JobsError, NotPermitted
from trellis_jobs.jetstream.keys.bucket import KeyBucket
from trellis_jobs.jetstream.keys.read import read_key
from trellis_jobs.key_errors import KeyStateMalformed
from trellis_jobs.model import events as e
from trellis_jobs.model import subjects
from trellis_jobs.model.concurrency import Concurrency
from trellis_jobs.model.identity import JobAddress
from trellis_jobs.model.job_errors import Interruption, JobError
from trellis_jobs.model.keys import slots as key_slots
from trellis_jobs.model.keys.fencing import EndAsStale, fence
from trellis_jobs.model.keys.state import KEYS_BUCKET, KeyAddress, KeyState, Slot, Waiting
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
    from trellis_jobs.model.job_status import Head

log = logging.getLogger(__name__)

_HASH: Final = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class Released:
    """`head` is None when the log holds nothing of the job, so nothing could be recorded."""

    head: Head | None
    slot: Slot


@dataclass(frozen=True, slots=True)
class NoSlot:
    """The job does not hold the key."""


@dataclass(frozen=True, slots=True)
class StillRenewed:
    """The slot's holder lives, as far as its lease says: for so long, unless it is renewed."""

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
        self._verdicts = GuardedAppender(connection, events)
        self._now = now

    async def key_of(self, job: JobAddress, held: Concurrency | None) -> KeyAddress | None:
        """The key under which the job was let in, if it was under any.

        Where nothing says which bucket the queue uses, it is taken to be the usual one.
        """
        if held is None or not is_key_hash(held.key_hash):
            return None
        bucket = await self.buckets.of(job.service, job.job_type) or KEYS_BUCKET
        return KeyAddress(job.service, job.job_type, held.key_hash, bucket)

    async def read(self, key: KeyAddress) -> KeyState | None:
        """As it is in the bucket, under the limits that are written there."""
        stored = await self._stored(key)
        return None if stored is None else stored.state

    async def look(self, key: KeyAddress) -> HeldKey | None:
        """The same, and whose lease is over."""
        stored = await self._stored(key)
        return None if stored is None else await self.leases.look(stored)

    async def withdraw(self, job: JobAddress, held: Concurrency | None) -> None:
        """A job that is over waits for its key no more.

        Its slot, if it has one, is left to its worker: the handler may still be tidying up. What
        a dead worker leaves is dropped once its lease is over.
        """
        try:
            key = await self.key_of(job, held)
            if key is not None:
                await self._apply(key, lambda state: key_slots.withdraw(state, job.job_id))
        except JobsError as error:
            log.warning(
                "job %s is over but was not removed from its key; key repair does that: %s",
                job.job_id,
                error,
                extra={"job": job.job_id, "error": str(error)},
            )

    async def let_in_again(self, retried: e.Retried) -> None:
        """Before the event, and beyond the key's depth if need be: an operator wants it.

        A key without a state has nobody to wait for, and its limits are not known. Without its
        place a job may still run, so trouble with the key does not stop it.
        """
        waiting = Waiting(
            job_id=retried.job.job_id,
            created_at=retried.at,
            request_id=retried.context.request_id,
            context=retried.context,
        )
        try:
            key = await self.key_of(retried.job, retried.concurrency)
            if key is not None:
                await self._apply(key, lambda state: key_slots.Removed(_wait_anew(state, waiting)))
        except JobsError as error:
            log.warning(
                "job %s could not be added to its key, and runs without a place in its queue: %s",
                waiting.job_id,
                error,
                extra={"job": waiting.job_id, "error": str(error)},
            )

    async def forget(self, key: KeyAddress, seen: KeyState, *job_ids: str) -> None:
        """Remove jobs that are over; of their slots only those in `seen`."""
        await self._apply(key, lambda state: key_slots.forget(state, *job_ids, seen=seen))

    async def release(
        self, key: KeyAddress, job_id: str, because: str
    ) -> Released | NoSlot | StillRenewed:
        """Free a slot whose lease is over: told to the log first, then dropped (design 5).

        `because` says who wants it, and why.
        """
        held = await self.look(key)
        slot = None if held is None else held.state.slot_of(job_id)
        if held is None or slot is None:
            return NoSlot()
        state = held.state
        if slot.token not in held.over:
            return StillRenewed(slot, held.left[slot.token])
        job = JobAddress(key.service, key.job_type, job_id)
        latest = await self._verdicts.current(job)
        told = None
        if latest is not None:
            told = await self._verdicts.append(
                job, latest, lambda newest: self._fencing(newest, job, state, slot, because)
            )
        stale = told is not None and isinstance(_verdict_on(told.before, slot), EndAsStale)
        await self._apply(key, lambda now: key_slots.drop(now, slot.token, counted=stale))
        return Released(told.head if told else None, slot)

    def _fencing(
        self, latest: Latest, job: JobAddress, state: KeyState, slot: Slot, because: str
    ) -> e.Event:
        """Ends the job if it runs under the slot; else a note, so that it is known who did it."""
        at, status = self._now(), latest.head.status
        reason = (
            f"{because}; worker {slot.instance} had not renewed its slot of key {state.display!r} "
            f"since {slot.heartbeat_at:%Y-%m-%d %H:%M:%S} UTC"
        )
        said = said_of(job, latest, at)
        if not isinstance(_verdict_on(latest, slot), EndAsStale):
            return e.StaleCompletionIgnored(**said, lost_attempt=slot.token, reason=reason)
        return e.Stale(
            **said,
            attempt=status.owner,
            error=JobError(type=Interruption.LEASE_OVER, message=reason, tries=status.tries, at=at),
            concurrency=Concurrency(
                key=state.display,
                key_hash=state.address.hash,
                slot_token=slot.token,
                instance=slot.instance,
                heartbeat_at=slot.heartbeat_at,
                lease_expires_at=slot.expires_at,
            ),
        )

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


def _wait_anew(state: KeyState, waiting: Waiting) -> KeyState:
    """A run that begins anew waits anew: what an earlier one left in the queue does not count."""
    return key_slots.enqueue(key_slots.withdraw(state, waiting.job_id).state, waiting)


def _verdict_on(latest: Latest, slot: Slot) -> object:
    return fence(latest.head.status, slot.token)
