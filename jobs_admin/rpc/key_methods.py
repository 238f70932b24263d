"""Requests about keys: who holds one and who waits for it, as the bucket says right now."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

import orjson

from jobs_admin.actions.job_keys import NoSlot, Released, StillRenewed, is_key_hash
from jobs_admin.actions.key_buckets import KeyBucketNotPermitted
from jobs_admin.api import inputs
from jobs_admin.api.error_envelope import Invalid, NotFound
from jobs_admin.api.errors import Issue
from jobs_admin.reads import keys as reads
from jobs_admin.reads.read_your_writes import caught_up, showing_what_was_done
from jobs_admin.rpc.pages import page_json
from jobs_admin.rpc.router import Method
from trellis_jobs.errors import NotPermitted
from trellis_jobs.model.durations import format_duration
from trellis_jobs.model.keys.state import KEYS_BUCKET, KeyAddress, KeyState, Slot
from trellis_jobs.wire.fields import add_present

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import datetime

    from jobs_admin.actions.job_keys import JobKeys
    from jobs_admin.actions.key_names import KeyNames
    from jobs_admin.reads.keys import BusyKey
    from jobs_admin.reads.read_your_writes import ProjectionProgress
    from jobs_admin.reads.readers import Readers
    from jobs_admin.rpc.router import Asker
    from trellis_jobs.jetstream.client.server_clock import ServerClock

# One answer holds them; how many there are in all is told besides.
_MOST_QUEUED: Final = 1_000
_MILLISECOND: Final = timedelta(milliseconds=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyMethods:
    readers: Readers
    progress: ProjectionProgress
    keys: JobKeys
    names: KeyNames
    clock: ServerClock
    largest_answer: Callable[[], int]

    def table(self) -> Mapping[str, Method]:
        return {
            "Jobs.GetKey": Method(inputs.KeyInput, self.get_key),
            "Jobs.ListKeys": Method(inputs.QueuePageInput, self.list_keys),
            "Jobs.ReleaseKey": Method(inputs.ReleaseInput, self.release),
        }

    async def get_key(self, asked: inputs.KeyInput, _: Asker) -> dict[str, Any]:
        await caught_up(self.progress, asked.min_seq)
        return await self._shown(await self._find(asked))

    async def list_keys(self, asked: inputs.QueuePageInput, _: Asker) -> bytes:
        await caught_up(self.progress, asked.min_seq)
        found = await reads.busy(
            self.readers,
            service=asked.service,
            job_type=asked.type,
            offset=asked.offset,
            limit=asked.limit,
        )
        return page_json(
            [_busy_json(key) for key in found.keys],
            count=found.count,
            offset=asked.offset,
            limit=asked.limit,
            room=self.largest_answer(),
        )

    async def release(self, asked: inputs.ReleaseInput, asker: Asker) -> dict[str, Any]:
        """Answers once the projection has what was recorded (design D17)."""
        state = await self._find(asked)
        by = asked.by or asker.session or "operator"
        because = f"released by {by}" + (f": {asked.reason}" if asked.reason else "")
        match await self.keys.release(state.address, asked.job_id, because):
            case Released(head):
                sequence = head.sequence if head else 0
                with showing_what_was_done(sequence):
                    await caught_up(self.progress, sequence)
                    return {**await self._shown(await self._find(asked)), "seq": sequence}
            case StillRenewed(slot, left):
                raise _still_renewed(asked, slot, left)
            case NoSlot():
                raise _no_slot(asked, state)

    async def _find(self, asked: inputs.KeyInput) -> KeyState:
        """By the key as people see it; or by its hash, where several keys look the same.

        Of a key whose jobs have left the log, only the bucket knows the name.
        """
        named = await self.keys.buckets.of(asked.service, asked.type)
        bucket = named or KEYS_BUCKET
        found = await reads.hashes(self.readers, asked.service, asked.type, asked.key)
        if not found and not is_key_hash(asked.key):
            found = await self._hashes_in(bucket, asked)
        if len(found) > 1:
            problem = (
                f"{len(found)} keys of {asked.service}/{asked.type} read {asked.key!r}: "
                f"say which by its hash: {', '.join(found)}"
            )
            raise Invalid(problem, [Issue("/key", problem)], hashes=found)
        if not found and is_key_hash(asked.key):
            found = [asked.key]
        state = None
        if found and is_key_hash(found[0]):
            state = await self.keys.read(KeyAddress(asked.service, asked.type, found[0], bucket))
        if state is None:
            raise _no_key(asked, named)
        return state

    async def _hashes_in(self, bucket: str, asked: inputs.KeyInput) -> list[str]:
        try:
            return await self.names.hashes(asked.service, asked.type, asked.key, bucket)
        except NotPermitted as refused:
            raise KeyBucketNotPermitted(bucket, refused) from refused

    async def _shown(self, state: KeyState) -> dict[str, Any]:
        now = await self.clock.now()
        body: dict[str, Any] = {
            "service": state.address.service,
            "type": state.address.job_type,
            "key": state.display,
            "keyHash": state.address.hash,
            "active": [_slot_json(slot, now) for slot in state.active],
            "queued": [
                {"jobId": each.job_id, "createdAt": each.created_at}
                for each in state.queued[:_MOST_QUEUED]
            ],
            "queuedDepth": len(state.queued),
            "staleTakeoverCount": state.stale_takeovers,
            "maxActive": state.max_active,
            "maxQueuedPerKey": state.max_queued,
            "bucket": state.address.bucket,
        }
        reason = await reads.latest_policy_reason(self.readers, state)
        add_present(body, latestPolicyReason=reason, updatedAt=state.updated_at)
        return body


def _busy_json(key: BusyKey) -> bytes:
    return orjson.dumps(
        {
            "service": key.service,
            "type": key.type,
            "key": key.key,
            "keyHash": key.key_hash,
            "active": key.active,
            "waiting": key.waiting,
        }
    )


def _slot_json(slot: Slot, now: datetime) -> dict[str, Any]:
    return {
        "jobId": slot.job_id,
        "instanceId": slot.instance,
        "startedAt": slot.started_at,
        "heartbeatAt": slot.heartbeat_at,
        "heartbeatAgeMs": max(0, (now - slot.heartbeat_at) // _MILLISECOND),
        "leaseExpiresAt": slot.expires_at,
    }


def _no_key(asked: inputs.KeyInput, bucket: str | None) -> NotFound:
    """`bucket` is None when nothing says in which one the queue keeps its keys."""
    if bucket is not None:
        why = f"nothing of it is in bucket {bucket}, in which the queue keeps its keys"
    else:
        why = (
            f"nothing of it is in bucket {KEYS_BUCKET}; the queue may keep its keys in another "
            "one, which its consumer would name: start a worker of the queue"
        )
    return NotFound(f"{asked.service}/{asked.type}/{asked.key}", resource="Key", why=why)


def _still_renewed(asked: inputs.ReleaseInput, slot: Slot, left: timedelta) -> Invalid:
    problem = (
        f"job {asked.job_id} runs on worker {slot.instance}, whose lease lasts "
        f"{format_duration(left)} more unless it is renewed: only a slot that is renewed no more "
        "can be released; to stop the job, cancel it"
    )
    return Invalid(problem, [Issue("/jobId", problem)], leaseExpiresAt=slot.expires_at)


def _no_slot(asked: inputs.ReleaseInput, state: KeyState) -> Invalid:
    holders = ", ".join(slot.job_id for slot in state.active) or "nobody"
    problem = f"job {asked.job_id} does not hold key {state.display!r}; held by {holders}"
    return Invalid(problem, [Issue("/jobId", problem)])
