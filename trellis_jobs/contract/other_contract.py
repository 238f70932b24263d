"""A queue whose workers have different contracts: what differs, and which contract takes a job."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Final

import orjson

from trellis_jobs.contract.changes import Weight, changes
from trellis_jobs.contract.consumer_metadata import CONTRACT, read_note
from trellis_jobs.contract.manifest import restated
from trellis_jobs.contract.payload_types import TypeMismatch
from trellis_jobs.contract.versions import upgrades_from
from trellis_jobs.errors import DeclarationError

if TYPE_CHECKING:
    from trellis_jobs.model.json_values import Json

_DIGITS: Final = 12


def digest_of_contract(note: str) -> str:
    """Short, for people to compare: the same for the same contract of a queue."""
    return hashlib.sha256(note.encode()).hexdigest()[:_DIGITS]


def conflicts(carried: str, told: str) -> list[str]:
    """Why workers of one contract cannot do the jobs of the other; empty if both can do all.

    `carried` is the contract that the consumer of the queue has, `told` the one of this worker.
    """
    if carried == told:
        return []
    try:
        was, now = restated(orjson.loads(carried)), restated(orjson.loads(told))
    except (DeclarationError, ValueError) as error:
        return [f"the contract that the queue has cannot be read: {error}"]
    found = {
        f"{change.field or change.queue} ({change.why})"
        for old, new in ((was, now), (now, was))
        for change in changes(old, new)
        if change.weight is Weight.MIGRATION and change.field in _OF_A_PAYLOAD
    }
    return sorted(found)


# Other settings decide how a job runs, not whether it can.
_OF_A_PAYLOAD: Final = frozenset({"", "payload", "result", "keyConcurrency.key"})


def accepts(note: str, service: str, job_type: str, payload: Json, version: int) -> bool:
    """Whether a worker with this contract could run a job with this payload."""
    try:
        queue = read_note({CONTRACT: note}, service, job_type)
    except DeclarationError:
        return False
    if queue is None:
        return False
    if version != queue.version:
        return upgrades_from(queue.version, queue.upgrades) <= version < queue.version
    try:
        queue.payload.from_json(payload)
    except TypeMismatch:
        return False
    return True
