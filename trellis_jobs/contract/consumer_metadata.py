"""The metadata of a queue's consumer: the queue's contract, and the bucket of its keys."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import orjson

from trellis_jobs.contract.changes import TYPE_FIELDS
from trellis_jobs.contract.declaration import ServiceContract
from trellis_jobs.contract.manifest import from_manifest, normalized, to_manifest
from trellis_jobs.contract.schema_types import DigestOnlyType, SchemaType, schema_digest
from trellis_jobs.errors import DeclarationError, InvalidToken
from trellis_jobs.model.identity import check_token
from trellis_jobs.model.keys.state import KEYS_BUCKET

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trellis_jobs.contract.declaration import JobType
    from trellis_jobs.contract.payload_types import PayloadType

# The metadata key of the contract, which is a manifest with one queue.
CONTRACT: Final = "trellis.contract"
# The metadata key of the bucket in which the queue stores its keys.
BUCKET: Final = "trellis.keys.bucket"
# Far below the server's limit of 128 KB, because listing consumers returns the metadata of all.
MAX_CONTRACT_LENGTH: Final = 16 * 1024


def metadata_of(service: str, queue: JobType[Any, Any]) -> dict[str, str]:
    """The default bucket is written too, because the queue may have used another one before."""
    bucket = {} if queue.key_policy is None else {BUCKET: queue.key_policy.bucket}
    return {CONTRACT: contract_json(service, queue), **bucket}


def contract_json(service: str, queue: JobType[Any, Any]) -> str:
    """The contract of a queue as JSON. Schemas that are too large are replaced by digests."""
    try:
        whole = _to_json(service, queue)
    except (DeclarationError, TypeError, ValueError):
        whole = None
    if whole is not None and len(whole) <= MAX_CONTRACT_LENGTH:
        return whole
    short = replace(queue, payload=_digest_only(queue.payload), result=_digest_only(queue.result))
    return _to_json(service, short)


def _digest_only(kind: PayloadType[Any]) -> SchemaType:
    try:
        return DigestOnlyType(schema_digest(kind.schema()), kind.secrets)
    except (DeclarationError, TypeError, ValueError):
        return SchemaType(True)


def read_contract(
    metadata: Mapping[str, str], service: str, job_type: str
) -> JobType[Any, Any] | None:
    """Read a queue's contract. Returns None if there is none.

    Raises DeclarationError if it is invalid or belongs to another queue.
    """
    contract = metadata.get(CONTRACT)
    if contract is None:
        return None
    queue, bucket = _read(contract, service, job_type), keys_bucket(metadata)
    if queue.key_policy is None or bucket is None:
        return queue
    return replace(queue, key_policy=replace(queue.key_policy, bucket=bucket))


def keys_bucket(metadata: Mapping[str, str]) -> str | None:
    """The bucket in which the queue stores its keys. Returns None if it is not known.

    Older versions wrote the contract without the bucket, and used only the default bucket.
    """
    named = metadata.get(BUCKET, KEYS_BUCKET if CONTRACT in metadata else "")
    try:
        return check_token("bucket", named)
    except InvalidToken:
        return None


def manifest_entry(
    metadata: Mapping[str, str], service: str, job_type: str
) -> dict[str, Any] | None:
    """Like `read_contract`, but returns the manifest entry, including unknown fields."""
    contract = metadata.get(CONTRACT)
    if contract is None:
        return None
    _read(contract, service, job_type)
    entry: dict[str, Any] = normalized(orjson.loads(contract))["jobs"][job_type]
    return entry


def with_declared_schemas(entry: dict[str, Any], declared: Mapping[str, Any]) -> dict[str, Any]:
    """Replace digests in an entry by the declared schemas that have these digests."""
    known = {
        part: {"schema": declared[part]["schema"], **_without_type(entry[part])}
        for part in ("payload", "result")
        if entry[part].get("digest") == schema_digest(declared[part].get("schema", True))
    }
    return {**entry, **known}


def _without_type(entry: Mapping[str, Any]) -> dict[str, Any]:
    return {word: value for word, value in entry.items() if word not in TYPE_FIELDS}


def _read(text: str, service: str, job_type: str) -> JobType[Any, Any]:
    try:
        contract = from_manifest(orjson.loads(text))
    except ValueError as error:
        raise DeclarationError(f"the contract is not JSON ({error})") from error
    if contract.service != service or job_type not in contract.queues:
        raise DeclarationError(
            f"the contract belongs to {contract.service}/{', '.join(contract.queues)}"
        )
    return contract.queues[job_type]


def keep_newer_contract(own: Mapping[str, str], stored: Mapping[str, str]) -> dict[str, str]:
    """In a rolling deploy, older code must not overwrite the metadata that newer code stored."""
    contract = own.get(CONTRACT)
    if contract is None or newer_contract(contract, stored.get(CONTRACT)) == contract:
        return dict(own)
    return {key: stored.get(key, own[key]) for key in own}


def newer_contract(own: str, stored: str | None) -> str:
    if stored is None or _version(stored) <= _version(own):
        return own
    return stored


def _version(contract: str) -> int:
    """The highest payload version in a contract, or 0 if it cannot be read."""
    try:
        queues = orjson.loads(contract)["jobs"].values()
        return max(int(queue["payload"].get("version", 1)) for queue in queues)
    except (ValueError, TypeError, KeyError, AttributeError):
        return 0


def _to_json(service: str, queue: JobType[Any, Any]) -> str:
    """Deterministic: equal contracts have equal texts."""
    manifest = to_manifest(ServiceContract(service, {queue.name: queue}))
    return json.dumps(manifest, separators=(",", ":"), sort_keys=True)
