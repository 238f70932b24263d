"""Key states ⇄ JSON, version 1: the format is the same in all Trellis runtimes.

Fields that another runtime added are preserved. A malformed state is reported and never reset,
because a reset would lose track of the running jobs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import orjson

from trellis_jobs.errors import InvalidToken
from trellis_jobs.model.identity import check_token
from trellis_jobs.model.keys.state import KeyAddress, KeyState, Slot, Waiting
from trellis_jobs.wire import contexts
from trellis_jobs.wire.fields import (
    BadField,
    add_present,
    count,
    dumps,
    loads,
    non_empty_text,
    objects,
    optional,
    optional_timestamp,
    required,
    timestamp,
    unknown_fields,
)

if TYPE_CHECKING:
    from trellis_jobs.model.context import JobContext

VERSION: Final = 1
_STATE: Final = frozenset(
    [
        "version",
        "service",
        "jobType",
        "key",
        "keyHash",
        "maxActive",
        "maxQueuedPerKey",
        "active",
        "queued",
        "staleTakeoverCount",
        "updatedAt",
    ]
)
_SLOT: Final = frozenset(
    [
        "jobId",
        "slotToken",
        "instanceId",
        "startedAt",
        "heartbeatAt",
        "leaseExpiresAt",
        "tries",
        "logSequence",
        "context",
    ]
)
_WAITING: Final = frozenset(["jobId", "createdAt", "requestId", "notBefore", "context"])
_CONTEXT: Final = frozenset(["requestId", "traceId", "traceparent", "tracestate"])


@dataclass(frozen=True, slots=True)
class Malformed:
    """The stored value is not a valid key state, and why."""

    reason: str


class WaitingEntryCache:
    """Encoded queue entries of a key, kept because most of them are the same in the next write."""

    __slots__ = ("_fragments",)

    def __init__(self) -> None:
        self._fragments: dict[int, tuple[Waiting, orjson.Fragment]] = {}

    def encode(self, queued: tuple[Waiting, ...]) -> list[orjson.Fragment]:
        before = self._fragments
        # Keyed by object identity: entries are immutable, and the value keeps the entry alive.
        self._fragments = {
            id(waiting): before.get(id(waiting))
            or (waiting, orjson.Fragment(dumps(_waiting_json(waiting))))
            for waiting in queued
        }
        return [self._fragments[id(waiting)][1] for waiting in queued]


def encode(state: KeyState, cache: WaitingEntryCache | None = None) -> bytes:
    """`cache` keeps encoded entries for the next call."""
    body = {
        **state.unknown,
        "version": VERSION,
        "service": state.address.service,
        "jobType": state.address.job_type,
        "key": state.display,
        "keyHash": state.address.hash,
        "maxActive": state.max_active,
        "maxQueuedPerKey": state.max_queued,
        "active": [_slot_json(slot) for slot in state.active],
        "queued": (cache or WaitingEntryCache()).encode(state.queued),
        "staleTakeoverCount": state.stale_takeovers,
    }
    add_present(body, updatedAt=state.updated_at)
    return dumps(body)


def decode(data: bytes, *, expected: KeyAddress) -> KeyState | Malformed:
    try:
        body = loads(data)
        version = required(body, "version", int)
        if version != VERSION:
            raise BadField(f"version {version} is not supported, only {VERSION}")
        address = KeyAddress(
            required(body, "service", str),
            required(body, "jobType", str),
            required(body, "keyHash", str),
            expected.bucket,
        )
        if address != expected:
            raise BadField(f"the value is for {address}, the bucket key for {expected}")
        return _state(body, address)
    except (BadField, InvalidToken) as problem:
        return Malformed(str(problem))


def _state(body: dict[str, Any], address: KeyAddress) -> KeyState:
    return KeyState(
        address=address,
        display=required(body, "key", str),
        max_active=count(body, "maxActive", minimum=1),
        max_queued=count(body, "maxQueuedPerKey") if "maxQueuedPerKey" in body else 0,
        active=tuple(_slot(entry) for entry in objects(body, "active")),
        queued=tuple(_waiting(entry) for entry in objects(body, "queued")),
        stale_takeovers=count(body, "staleTakeoverCount") if "staleTakeoverCount" in body else 0,
        updated_at=optional_timestamp(body, "updatedAt"),
        unknown=unknown_fields(body, _STATE),
    )


def _slot(body: dict[str, Any]) -> Slot:
    return Slot(
        job_id=check_token("jobId", required(body, "jobId", str)),
        token=non_empty_text(body, "slotToken"),
        instance=required(body, "instanceId", str),
        started_at=timestamp(body, "startedAt"),
        heartbeat_at=timestamp(body, "heartbeatAt"),
        expires_at=timestamp(body, "leaseExpiresAt"),
        tries=count(body, "tries"),
        since=count(body, "logSequence") if "logSequence" in body else 0,
        context=_context(body),
        unknown=_unknown_of_entry(body, _SLOT),
    )


def _slot_json(slot: Slot) -> dict[str, Any]:
    return {
        **slot.unknown,
        "jobId": slot.job_id,
        "slotToken": slot.token,
        "instanceId": slot.instance,
        "startedAt": slot.started_at,
        "heartbeatAt": slot.heartbeat_at,
        "leaseExpiresAt": slot.expires_at,
        "tries": slot.tries,
        **({"logSequence": slot.since} if slot.since else {}),
        **_context_json(slot),
    }


def _waiting(body: dict[str, Any]) -> Waiting:
    return Waiting(
        job_id=check_token("jobId", required(body, "jobId", str)),
        created_at=timestamp(body, "createdAt"),
        request_id=required(body, "requestId", str),
        not_before=optional_timestamp(body, "notBefore"),
        context=_context(body),
        unknown=_unknown_of_entry(body, _WAITING),
    )


def _waiting_json(waiting: Waiting) -> dict[str, Any]:
    body = {
        **waiting.unknown,
        "jobId": waiting.job_id,
        "createdAt": waiting.created_at,
        "requestId": waiting.request_id,
        **_context_json(waiting),
    }
    add_present(body, notBefore=waiting.not_before)
    return body


def _context(body: dict[str, Any]) -> JobContext | None:
    found = optional(body, "context", dict)
    return None if found is None else contexts.from_json(found)


def _context_json(entry: Slot | Waiting) -> dict[str, Any]:
    if entry.context is None:
        return {}
    return {"context": {**entry.unknown.get("context", {}), **contexts.to_json(entry.context)}}


def _unknown_of_entry(body: dict[str, Any], known: frozenset[str]) -> dict[str, Any]:
    unknown = unknown_fields(body, known)
    within = unknown_fields(body.get("context") or {}, _CONTEXT)
    return {**unknown, "context": within} if within else unknown
