"""A queue's part of its service's manifest, as its consumer on the server carries it."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import orjson

from trellis_jobs.contract.changes import OF_A_TYPE
from trellis_jobs.contract.declaration import ServiceContract
from trellis_jobs.contract.manifest import from_manifest, restated, to_manifest
from trellis_jobs.contract.schema_types import DigestOnlyType, SchemaType, digest_of
from trellis_jobs.errors import DeclarationError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trellis_jobs.contract.declaration import JobType
    from trellis_jobs.contract.payload_types import PayloadType

# The key in the consumer's metadata; what it holds is a manifest with one queue.
CONTRACT: Final = "trellis.contract"
# A list of consumers brings along the notes of all, and the server takes 128 KB for each.
LARGEST: Final = 16 * 1024


def note_of(service: str, queue: JobType[Any, Any]) -> str:
    """With digests of the schemas where they are too large; nothing of a type that has none."""
    try:
        whole = _written(service, queue)
    except (DeclarationError, TypeError, ValueError):
        whole = None
    if whole is not None and len(whole) <= LARGEST:
        return whole
    short = replace(queue, payload=_untold(queue.payload), result=_untold(queue.result))
    return _written(service, short)


def _untold(shape: PayloadType[Any]) -> SchemaType:
    try:
        return DigestOnlyType(digest_of(shape.schema()), shape.secrets)
    except (DeclarationError, TypeError, ValueError):
        return SchemaType(True)


def read_note(metadata: Mapping[str, str], service: str, job_type: str) -> JobType[Any, Any] | None:
    """None where there is no note; raises DeclarationError where there is one of something else."""
    note = metadata.get(CONTRACT)
    return None if note is None else _read(note, service, job_type)


def told_entry(metadata: Mapping[str, str], service: str, job_type: str) -> dict[str, Any] | None:
    """As `read_note`: the queue's part of a manifest, also with what is not known here."""
    note = metadata.get(CONTRACT)
    if note is None:
        return None
    _read(note, service, job_type)
    entry: dict[str, Any] = restated(orjson.loads(note))["jobs"][job_type]
    return entry


def with_known_types(told: dict[str, Any], declared: Mapping[str, Any]) -> dict[str, Any]:
    """An entry with the schemas of another one, where it has a digest of just these."""
    known = {
        part: {"schema": declared[part]["schema"], **_but_its_type(told[part])}
        for part in ("payload", "result")
        if told[part].get("digest") == digest_of(declared[part].get("schema", True))
    }
    return {**told, **known}


def _but_its_type(entry: Mapping[str, Any]) -> dict[str, Any]:
    return {word: value for word, value in entry.items() if word not in OF_A_TYPE}


def _read(note: str, service: str, job_type: str) -> JobType[Any, Any]:
    try:
        contract = from_manifest(orjson.loads(note))
    except ValueError as error:
        raise DeclarationError(f"it is not JSON ({error})") from error
    if contract.service != service or job_type not in contract.queues:
        raise DeclarationError(f"it is about {contract.service}/{', '.join(contract.queues)}")
    return contract.queues[job_type]


def standing_note(told: str, carried: str | None) -> str:
    """Which of two notes stands: in a rolling deploy older code does not take back the newer."""
    if carried is None or _version(carried) <= _version(told):
        return told
    return carried


def _version(note: str) -> int:
    """The highest version of a payload in it; 0 where it cannot be read."""
    try:
        queues = orjson.loads(note)["jobs"].values()
        return max(int(queue["payload"].get("version", 1)) for queue in queues)
    except (ValueError, TypeError, KeyError, AttributeError):
        return 0


def _written(service: str, queue: JobType[Any, Any]) -> str:
    """The same contract is the same text, whoever writes it."""
    manifest = to_manifest(ServiceContract(service, {queue.name: queue}))
    return json.dumps(manifest, separators=(",", ":"), sort_keys=True)
