"""A queue's part of its service's manifest, as its consumer carries it, and where its keys are."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import orjson

from trellis_jobs.contract.changes import OF_A_TYPE
from trellis_jobs.contract.declaration import ServiceContract
from trellis_jobs.contract.manifest import from_manifest, restated, to_manifest
from trellis_jobs.contract.schema_types import DigestOnlyType, SchemaType, digest_of
from trellis_jobs.errors import DeclarationError, InvalidToken
from trellis_jobs.model.identity import check_token
from trellis_jobs.model.keys.state import KEYS_BUCKET

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trellis_jobs.contract.declaration import JobType
    from trellis_jobs.contract.payload_types import PayloadType

# The key in the consumer's metadata; what it holds is a manifest with one queue.
CONTRACT: Final = "trellis.contract"
# The key in the consumer's metadata for the bucket in which the queue keeps its keys.
BUCKET: Final = "trellis.keys.bucket"
# A list of consumers brings along the notes of all, and the server takes 128 KB for each.
LARGEST: Final = 16 * 1024


def metadata_of(service: str, queue: JobType[Any, Any]) -> dict[str, str]:
    """The bucket is also written where it is the usual one: a queue may have left another."""
    bucket = {} if queue.key_policy is None else {BUCKET: queue.key_policy.bucket}
    return {CONTRACT: note_of(service, queue), **bucket}


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
    if note is None:
        return None
    queue, bucket = _read(note, service, job_type), keys_bucket(metadata)
    if queue.key_policy is None or bucket is None:
        return queue
    return replace(queue, key_policy=replace(queue.key_policy, bucket=bucket))


def keys_bucket(metadata: Mapping[str, str]) -> str | None:
    """The bucket in which the queue keeps its keys; None where the consumer does not say.

    Before services could name another one, consumers carried the contract alone.
    """
    named = metadata.get(BUCKET, KEYS_BUCKET if CONTRACT in metadata else "")
    try:
        return check_token("bucket", named)
    except InvalidToken:
        return None


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


def standing_metadata(told: Mapping[str, str], carried: Mapping[str, str]) -> dict[str, str]:
    """What of it stands: in a rolling deploy older code does not take back what newer code said."""
    note = told.get(CONTRACT)
    if note is None or standing_note(note, carried.get(CONTRACT)) == note:
        return dict(told)
    return {key: carried.get(key, told[key]) for key in told}


def standing_note(told: str, carried: str | None) -> str:
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
