"""Manifests: contracts as JSON documents, with the `jobs` map of the original runtimes."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel
from pydantic.json_schema import GenerateJsonSchema

from trellis_jobs.contract.declaration import (
    DEFAULT_ACK_WAIT,
    DEFAULT_DELAYS,
    DEFAULT_RETRY,
    JobType,
    ServiceContract,
)
from trellis_jobs.contract.documents import Token, first_error
from trellis_jobs.contract.key_policy import KeyConcurrency, KeyPolicy, QueueDepth, resolve
from trellis_jobs.contract.schema_types import DigestOnlyType, SchemaType
from trellis_jobs.contract.versions import Upgrade, oldest_supported, upgraded_elsewhere
from trellis_jobs.errors import DeclarationError
from trellis_jobs.model.retry import RetryPolicy

if TYPE_CHECKING:
    from trellis_jobs.contract.payload_types import PayloadType

FORMAT: Final = "trellis.jobs.service@v1"
_MILLISECOND: Final = timedelta(milliseconds=1)
_MAX_MILLISECONDS: Final = timedelta.max // _MILLISECOND
# Far more than a service has, since each upgrade is a function in its code.
_MAX_UPGRADES: Final = 1_000

Milliseconds = Annotated[int, Field(ge=0, le=_MAX_MILLISECONDS)]
Count = Annotated[int, Field(ge=1)]


class _WithoutTitles(GenerateJsonSchema):
    """Leave out titles, which only repeat the field names."""

    def field_title_should_be_set(self, _schema: object) -> bool:
        return False


class _Part(BaseModel):
    """Strict types. Fields that a later version added are accepted and preserved."""

    model_config = ConfigDict(
        frozen=True, strict=True, extra="allow", alias_generator=to_camel, populate_by_name=True
    )


class TypeEntry(_Part):
    """The type of a payload or result; without a schema, any value is valid.

    `digest` and `secrets` replace a schema that is too large for the metadata of a consumer.
    """

    json_schema: dict[str, Any] | bool = Field(default=True, alias="schema")
    digest: str | None = None
    secrets: list[str] | None = None


class PayloadEntry(TypeEntry):
    """Payloads of all versions from `upgradesFrom` on can be read."""

    version: Count | None = None
    upgrades_from: Count | None = None


class KeyEntry(_Part):
    key: Annotated[list[str], Field(min_length=1)]
    max_active: Count = 1
    heartbeat_interval_ms: Milliseconds | None = None
    heartbeat_ttl_ms: Milliseconds | None = None
    stale_policy: Literal["fail-stale", "block"] = "fail-stale"


class DepthEntry(_Part):
    max_queued_per_key: Annotated[int, Field(ge=0)] = 0
    when_full: Literal["reject", "coalesce", "replace-oldest"] = "reject"


class QueueEntry(_Part):
    payload: PayloadEntry
    result: TypeEntry = TypeEntry()
    max_deliver: Count = DEFAULT_RETRY.max_tries
    backoff_ms: list[Milliseconds] = [delay // _MILLISECOND for delay in DEFAULT_DELAYS]
    ack_wait_ms: Milliseconds = DEFAULT_ACK_WAIT // _MILLISECOND
    progress: bool = True
    logs: bool = True
    dlq: bool = True
    concurrency: Count = 1
    default_deadline_ms: Milliseconds | None = None
    timeout_ms: Milliseconds | None = None
    delivery_limit: Count | None = None
    shared: bool | None = None
    key_concurrency: KeyEntry | None = None
    queue: DepthEntry | None = None
    docs: Any = None


class Manifest(_Part):
    """The contract of a service: its queues by name, with their types and settings."""

    format: Literal["trellis.jobs.service@v1"] = FORMAT
    service: Token
    jobs: Annotated[
        dict[Token, QueueEntry], Field(json_schema_extra={"additionalProperties": False})
    ]


def manifest_schema() -> dict[str, Any]:
    """The JSON Schema that is published as contracts/manifest.schema.json."""
    dialect = {"$schema": GenerateJsonSchema.schema_dialect}
    return dialect | Manifest.model_json_schema(by_alias=True, schema_generator=_WithoutTitles)


def to_manifest(contract: ServiceContract) -> dict[str, Any]:
    entries = {name: _entry(queue) for name, queue in sorted(contract.queues.items())}
    written = Manifest(service=contract.service, jobs=entries)
    return written.model_dump(by_alias=True, exclude_none=True)


def from_manifest(document: object) -> ServiceContract:
    """Read a manifest. Raises DeclarationError, which names the invalid field."""
    return _contract(_read(document))


def normalized(document: object) -> dict[str, Any]:
    """A manifest as this version writes it, with unknown fields preserved.

    Raises DeclarationError if it is invalid.
    """
    read = _read(document)
    written = to_manifest(_contract(read))
    jobs = {name: _with_unknown(entry, read.jobs[name]) for name, entry in written["jobs"].items()}
    return {**_with_unknown(written, read), "jobs": jobs}


def _with_unknown(written: dict[str, Any], read: _Part) -> dict[str, Any]:
    parts = {
        str(field.alias): getattr(read, name) for name, field in type(read).model_fields.items()
    }
    inner = {
        name: _with_unknown(written[name], part)
        for name, part in parts.items()
        if isinstance(part, _Part) and name in written
    }
    return {**written, **inner, **(read.model_extra or {})}


def _read(document: object) -> Manifest:
    try:
        return Manifest.model_validate(document)
    except ValidationError as error:
        raise DeclarationError(f"not a manifest: {first_error(error)}") from None


def _contract(manifest: Manifest) -> ServiceContract:
    queues = {name: _queue(name, entry) for name, entry in manifest.jobs.items()}
    return ServiceContract(manifest.service, queues)


def _entry(queue: JobType[Any, Any]) -> QueueEntry:
    return QueueEntry(
        payload=_payload_entry(queue),
        result=TypeEntry(**_type_fields(queue.result)),
        max_deliver=queue.retry.max_tries,
        backoff_ms=[_milliseconds(delay) for delay in queue.retry.delays],
        ack_wait_ms=_milliseconds(queue.ack_wait),
        progress=bool(queue.progress),
        logs=bool(queue.logs),
        dlq=bool(queue.dead_letters),
        concurrency=queue.concurrency,
        default_deadline_ms=None if queue.deadline is None else _milliseconds(queue.deadline),
        timeout_ms=None if queue.timeout is None else _milliseconds(queue.timeout),
        delivery_limit=queue.delivery_limit,
        shared=queue.shared or None,
        key_concurrency=None if queue.key_policy is None else _key_entry(queue.key_policy),
        queue=None if queue.key_policy is None else _depth_entry(queue.key_policy),
        docs=queue.docs,
    )


def _payload_entry(queue: JobType[Any, Any]) -> PayloadEntry:
    """Version 1 is the default and left out."""
    oldest = oldest_supported(queue.version, queue.upgrades)
    return PayloadEntry(
        **_type_fields(queue.payload),
        version=queue.version if queue.version > 1 else None,
        upgrades_from=oldest if oldest < queue.version else None,
    )


def _type_fields(kind: PayloadType[Any]) -> dict[str, Any]:
    if isinstance(kind, DigestOnlyType):
        return {"digest": kind.digest, "secrets": list(kind.secrets)}
    return {"schema": kind.schema()}


def _payload_type(entry: TypeEntry) -> SchemaType:
    if entry.digest is not None:
        return DigestOnlyType(entry.digest, tuple(entry.secrets or ()))
    return SchemaType(entry.json_schema)


def _key_entry(key_policy: KeyPolicy) -> KeyEntry:
    return KeyEntry(
        key=list(key_policy.template.segments),
        max_active=key_policy.max_active,
        heartbeat_interval_ms=_milliseconds(key_policy.heartbeat_interval),
        heartbeat_ttl_ms=_milliseconds(key_policy.heartbeat_ttl),
        stale_policy=key_policy.stale_policy.value,
    )


def _depth_entry(key_policy: KeyPolicy) -> DepthEntry:
    return DepthEntry(
        max_queued_per_key=key_policy.max_queued, when_full=key_policy.when_full.value
    )


def _queue(name: str, entry: QueueEntry) -> JobType[Any, Any]:
    ack_wait = entry.ack_wait_ms * _MILLISECOND
    try:
        return JobType(
            name=name,
            payload=_payload_type(entry.payload),
            result=_payload_type(entry.result),
            concurrency=entry.concurrency,
            retry=RetryPolicy(
                entry.max_deliver, tuple(delay * _MILLISECOND for delay in entry.backoff_ms)
            ),
            ack_wait=ack_wait,
            delivery_limit=entry.delivery_limit,
            timeout=_duration(entry.timeout_ms),
            deadline=_duration(entry.default_deadline_ms),
            progress=entry.progress,
            logs=entry.logs,
            dead_letters=entry.dlq,
            shared=bool(entry.shared),
            key_policy=_key_policy(entry, ack_wait),
            version=entry.payload.version or 1,
            upgrades=_upgrades(entry.payload),
            docs=entry.docs,
        )
    except (DeclarationError, ValueError) as error:
        raise DeclarationError(f"jobs.{name}: {error}") from error


def _upgrades(payload: PayloadEntry) -> dict[int, Upgrade]:
    newest = payload.version or 1
    steps = range(payload.upgrades_from or newest, newest)
    if newest - steps.start > _MAX_UPGRADES:
        raise DeclarationError(
            f"payload.upgradesFrom: at most {_MAX_UPGRADES} upgrades are supported"
        )
    return dict.fromkeys(steps, upgraded_elsewhere)


def _key_policy(entry: QueueEntry, ack_wait: timedelta) -> KeyPolicy | None:
    """`queue` without `keyConcurrency` has no effect, as in the original runtimes."""
    key = entry.key_concurrency
    if key is None:
        return None
    depth = entry.queue or DepthEntry()
    return resolve(
        KeyConcurrency(
            key.key,
            key.max_active,
            _duration(key.heartbeat_interval_ms),
            _duration(key.heartbeat_ttl_ms),
            key.stale_policy,
        ),
        QueueDepth(depth.max_queued_per_key, depth.when_full),
        ack_wait,
    )


def _duration(milliseconds: int | None) -> timedelta | None:
    return None if milliseconds is None else milliseconds * _MILLISECOND


def _milliseconds(duration: timedelta) -> int:
    return round(duration / _MILLISECOND)
