"""The RPCs about keys, from the current state of the bucket."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from jobs_admin.actions.job_keys import NoSlot, Released, StillRenewed, is_key_hash
from jobs_admin.actions.key_buckets import KeyBucketNotPermitted
from jobs_admin.api.contract import Rpcs
from jobs_admin.api.error_envelope import Invalid, NotFound
from jobs_admin.api.errors import Issue
from jobs_admin.api.views.keys import KeyView, WaitingView
from jobs_admin.reads import keys as reads
from jobs_admin.reads.read_your_writes import mention_recorded_event, wait_for_position
from jobs_admin.rpc.key_holders import KeyHolders, holder_view
from jobs_admin.rpc.router import answered_by
from trellis_jobs.errors import NotPermitted
from trellis_jobs.model.durations import format_duration
from trellis_jobs.model.keys.state import KEYS_BUCKET, KeyAddress, KeyState, Slot

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import timedelta

    from jobs_admin.actions.job_keys import JobKeys
    from jobs_admin.actions.key_names import KeyNames
    from jobs_admin.api import inputs
    from jobs_admin.api.views.base import Page
    from jobs_admin.api.views.keys import BusyKeyView
    from jobs_admin.reads.read_your_writes import ProjectionProgress
    from jobs_admin.reads.readers import Readers
    from jobs_admin.rpc.router import Caller, Method
    from trellis_jobs.jetstream.client.server_clock import ServerClock

# More would not fit into one reply; `queuedDepth` is the number of all.
_MAX_QUEUED_SHOWN: Final = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyMethods:
    readers: Readers
    progress: ProjectionProgress
    keys: JobKeys
    names: KeyNames
    clock: ServerClock

    def table(self) -> Mapping[str, Method]:
        return dict(
            [
                answered_by(Rpcs.GET_KEY, self.get_key),
                answered_by(Rpcs.LIST_KEYS, self.list_keys),
                answered_by(Rpcs.RELEASE_KEY, self.release),
            ]
        )

    async def get_key(self, request: inputs.KeyInput, _: Caller) -> KeyView:
        await wait_for_position(self.progress, request.min_seq)
        return await self._shown(await self._find(request))

    async def list_keys(self, request: inputs.QueuePageInput, _: Caller) -> Page[BusyKeyView]:
        await wait_for_position(self.progress, request.min_seq)
        page = await reads.busy(
            self.readers,
            service=request.service,
            job_type=request.type,
            offset=request.offset,
            limit=request.limit,
        )
        holders = KeyHolders(self.keys, self.clock)
        return page.model_copy(update={"entries": tuple(await holders.added_to(page.entries))})

    async def release(self, request: inputs.ReleaseInput, caller: Caller) -> KeyView:
        """Reply once the projection has the recorded event (design D17)."""
        state = await self._find(request)
        by = request.by or caller.session or "operator"
        because = f"released by {by}" + (f": {request.reason}" if request.reason else "")
        match await self.keys.release(state.address, request.job_id, because):
            case Released(head):
                sequence = head.sequence if head else 0
                with mention_recorded_event(sequence):
                    await wait_for_position(self.progress, sequence)
                    return await self._shown(await self._find(request), seq=sequence)
            case StillRenewed(slot, left):
                raise _still_renewed(request, slot, left)
            case NoSlot():
                raise _no_slot(request, state)

    async def _find(self, request: inputs.KeyInput) -> KeyState:
        """Find a key by its text, or by its hash when several keys have the same text.

        When retention has removed the jobs of a key, only the bucket knows its text.
        """
        named = await self.keys.buckets.of(request.service, request.type)
        bucket = named or KEYS_BUCKET
        found = await reads.hashes(self.readers, request.service, request.type, request.key)
        if not found and not is_key_hash(request.key):
            found = await self._hashes_in(bucket, request)
        if len(found) > 1:
            problem = (
                f"{len(found)} keys of {request.service}/{request.type} have the text "
                f"{request.key!r}: use one of their hashes: {', '.join(found)}"
            )
            raise Invalid(problem, [Issue("/key", problem)], hashes=found)
        if not found and is_key_hash(request.key):
            found = [request.key]
        state = None
        if found and is_key_hash(found[0]):
            address = KeyAddress(request.service, request.type, found[0], bucket)
            state = await self.keys.read(address)
        if state is None:
            raise _no_key(request, named)
        return state

    async def _hashes_in(self, bucket: str, request: inputs.KeyInput) -> list[str]:
        try:
            return await self.names.hashes(request.service, request.type, request.key, bucket)
        except NotPermitted as refused:
            raise KeyBucketNotPermitted(bucket, refused) from refused

    async def _shown(self, state: KeyState, *, seq: int | None = None) -> KeyView:
        now = await self.clock.now()
        waiting = state.queued[:_MAX_QUEUED_SHOWN]
        return KeyView(
            service=state.address.service,
            type=state.address.job_type,
            key=state.display,
            key_hash=state.address.hash,
            active=tuple(holder_view(slot, now) for slot in state.active),
            queued=tuple(
                WaitingView(job_id=each.job_id, created_at=each.created_at) for each in waiting
            ),
            queued_depth=len(state.queued),
            stale_takeover_count=state.stale_takeovers,
            max_active=state.max_active,
            max_queued_per_key=state.max_queued,
            bucket=state.address.bucket,
            latest_policy_reason=await reads.latest_policy_reason(self.readers, state),
            updated_at=state.updated_at,
            seq=seq,
        )


def _no_key(request: inputs.KeyInput, bucket: str | None) -> NotFound:
    """`bucket` is None when nothing names the bucket of the queue."""
    if bucket is not None:
        why = f"the queue keeps its keys in bucket {bucket}, which has no such key"
    else:
        why = (
            f"bucket {KEYS_BUCKET} has no such key; the queue may keep its keys in another one, "
            "which its consumer names: start a worker of the queue"
        )
    return NotFound(f"{request.service}/{request.type}/{request.key}", resource="Key", why=why)


def _still_renewed(request: inputs.ReleaseInput, slot: Slot, left: timedelta) -> Invalid:
    problem = (
        f"job {request.job_id} runs on worker {slot.instance}, whose lease expires in "
        f"{format_duration(left)} unless it is renewed: only a slot with an expired lease can be "
        "released; to stop the job, cancel it"
    )
    return Invalid(problem, [Issue("/jobId", problem)], leaseExpiresAt=slot.expires_at)


def _no_slot(request: inputs.ReleaseInput, state: KeyState) -> Invalid:
    holders = ", ".join(slot.job_id for slot in state.active) or "no job"
    problem = f"job {request.job_id} does not hold key {state.display!r}; it is held by {holders}"
    return Invalid(problem, [Issue("/jobId", problem)])
