"""Queues whose workers have different contracts: what differs, and which contract accepts a job."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Final

import orjson

from trellis_jobs.contract.change_rules import ChangeClass
from trellis_jobs.contract.changes import Manifest, changes
from trellis_jobs.contract.consumer_metadata import CONTRACT, read_contract
from trellis_jobs.contract.manifest import normalized
from trellis_jobs.contract.payload_types import TypeMismatch
from trellis_jobs.contract.versions import oldest_supported
from trellis_jobs.errors import DeclarationError

if TYPE_CHECKING:
    from trellis_jobs.model.json_values import Json

_DIGITS: Final = 12


def contract_digest(contract: str) -> str:
    """A short digest for people to compare; equal contracts have equal digests."""
    return hashlib.sha256(contract.encode()).hexdigest()[:_DIGITS]


def conflicts(stored: str, own: str) -> list[str]:
    """Why workers with one contract cannot run the jobs of the other. Empty if they can.

    `stored` is the contract in the consumer's metadata, which is the old one. `own` is the
    contract of this worker, which is the new one.
    """
    if stored == own:
        return []
    try:
        was, now = normalized(orjson.loads(stored)), normalized(orjson.loads(own))
    except (DeclarationError, ValueError) as error:
        return [f"the stored contract of the queue cannot be read: {error}"]
    forward, back = _incompatibilities(was, now), _incompatibilities(now, was)
    return [
        *sorted(forward & back),
        *(f"jobs of the old contract, new workers: {each}" for each in sorted(forward - back)),
        *(f"jobs of the new contract, old workers: {each}" for each in sorted(back - forward)),
    ]


def _incompatibilities(old: Manifest, new: Manifest) -> set[str]:
    """Why a worker with the new contract cannot run each job of the old one."""
    return {
        f"{change.field or change.queue} ({change.why})"
        for change in changes(old, new)
        if change.change_class is ChangeClass.MIGRATION and change.field in _COMPATIBILITY_FIELDS
    }


# The other fields determine how a job runs, not whether it can run.
_COMPATIBILITY_FIELDS: Final = frozenset({"", "payload", "result", "keyConcurrency.key"})


def accepts(contract: str, service: str, job_type: str, payload: Json, version: int) -> bool:
    """Whether a worker with this contract could run a job with this payload."""
    try:
        queue = read_contract({CONTRACT: contract}, service, job_type)
    except DeclarationError:
        return False
    if queue is None:
        return False
    if version != queue.version:
        return oldest_supported(queue.version, queue.upgrades) <= version < queue.version
    try:
        queue.payload.from_json(payload)
    except TypeMismatch:
        return False
    return True
