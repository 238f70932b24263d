"""A service's contract as a JSON document, and back: the `jobs` map of the original runtimes."""

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
from trellis_jobs.contract.documents import Token, first_problem
from trellis_jobs.contract.key_policy import KeyConcurrency, KeyPolicy, QueueDepth, resolve
from trellis_jobs.contract.schema_types import DigestOnlyType, SchemaType
from trellis_jobs.contract.versions import Upgrade, upgraded_elsewhere, upgrades_from
from trellis_jobs.errors import DeclarationError
from trellis_jobs.model.retry import RetryPolicy

if TYPE_CHECKING:
    from trellis_jobs.contract.payload_types import PayloadType

FORMAT: Final = "trellis.jobs.service@v1"
_MILLISECOND: Final = timedelta(milliseconds=1)
_LONGEST: Final = timedelta.max // _MILLISECOND
# Each is a function in the service's code.
_MOST_UPGRADES: Final = 1_000

Milliseconds = Annotated[int, Field(ge=0, le=_LONGEST)]
Count = Annotated[int, Field(ge=1)]


class _Untitled(GenerateJsonSchema):
    """The names of fields say enough."""

    def field_title_should_be_set(self, _schema: object) -> bool:
        return False


class _Part(BaseModel):
    """Numbers are numbers, and what a later version adds is let pass, and kept."""

    model_config = ConfigDict(
        frozen=True, strict=True, extra="allow", alias_generator=to_camel, populate_by_name=True
    )


class TypeEntry(_Part):
    """What is not said fits everything.

    `digest` and `secrets` stand for a schema that was too large for a consumer to carry.
    """

    json_schema: dict[str, Any] | bool = Field(default=True, alias="schema")
    digest: str | None = None
    secrets: list[str] | None = None


class PayloadEntry(TypeEntry):
    """Payloads of every version since `upgradesFrom` can still be read."""

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
    """What a service promises of its jobs: its queues by name, with their types and settings."""

    format: Literal["trellis.jobs.service@v1"] = FORMAT
    service: Token
    jobs: Annotated[
        dict[Token, QueueEntry], Field(json_schema_extra={"additionalProperties": False})
    ]


def manifest_schema() -> dict[str, Any]:
    """As it is published in contracts/manifest.schema.json."""
    dialect = {"$schema": GenerateJsonSchema.schema_dialect}
    return dialect | Manifest.model_json_schema(by_alias=True, schema_generator=_Untitled)


def to_manifest(contract: ServiceContract) -> dict[str, Any]:
    entries = {name: _entry(queue) for name, queue in sorted(contract.queues.items())}
    written = Manifest(service=contract.service, jobs=entries)
    return written.model_dump(by_alias=True, exclude_none=True)


def from_manifest(document: object) -> ServiceContract:
    """Raises DeclarationError, which names the place, if it is no manifest or cannot work."""
    return _contract(_read(document))


def restated(document: object) -> dict[str, Any]:
    """As it would be written here, and what it says beyond that; raises DeclarationError."""
    said = _read(document)
    written = to_manifest(_contract(said))
    jobs = {name: _with_unknown(entry, said.jobs[name]) for name, entry in written["jobs"].items()}
    return {**_with_unknown(written, said), "jobs": jobs}


def _with_unknown(written: dict[str, Any], said: _Part) -> dict[str, Any]:
    parts = {
        str(field.alias): getattr(said, name) for name, field in type(said).model_fields.items()
    }
    inner = {
        name: _with_unknown(written[name], part)
        for name, part in parts.items()
        if isinstance(part, _Part) and name in written
    }
    return {**written, **inner, **(said.model_extra or {})}


def _read(document: object) -> Manifest:
    try:
        return Manifest.model_validate(document)
    except ValidationError as error:
        raise DeclarationError(f"this is no manifest: {first_problem(error)}") from None


def _contract(manifest: Manifest) -> ServiceContract:
    queues = {name: _queue(name, entry) for name, entry in manifest.jobs.items()}
    return ServiceContract(manifest.service, queues)


def _entry(queue: JobType[Any, Any]) -> QueueEntry:
    return QueueEntry(
        payload=_payload_entry(queue),
        result=TypeEntry(**_type(queue.result)),
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
    """The first version is not worth mentioning."""
    oldest = upgrades_from(queue.version, queue.upgrades)
    return PayloadEntry(
        **_type(queue.payload),
        version=queue.version if queue.version > 1 else None,
        upgrades_from=oldest if oldest < queue.version else None,
    )


def _type(shape: PayloadType[Any]) -> dict[str, Any]:
    if isinstance(shape, DigestOnlyType):
        return {"digest": shape.digest, "secrets": list(shape.secrets)}
    return {"schema": shape.schema()}


def _shape(entry: TypeEntry) -> SchemaType:
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
            payload=_shape(entry.payload),
            result=_shape(entry.result),
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
    if newest - steps.start > _MOST_UPGRADES:
        raise DeclarationError(
            f"payload.upgradesFrom: there can be at most {_MOST_UPGRADES} upgrades"
        )
    return dict.fromkeys(steps, upgraded_elsewhere)


def _key_policy(entry: QueueEntry, ack_wait: timedelta) -> KeyPolicy | None:
    """`queue` alone says nothing, as the original runtimes read it."""
    said = entry.key_concurrency
    if said is None:
        return None
    depth = entry.queue or DepthEntry()
    return resolve(
        KeyConcurrency(
            said.key,
            said.max_active,
            _duration(said.heartbeat_interval_ms),
            _duration(said.heartbeat_ttl_ms),
            said.stale_policy,
        ),
        QueueDepth(depth.max_queued_per_key, depth.when_full),
        ack_wait,
    )


def _duration(milliseconds: int | None) -> timedelta | None:
    return None if milliseconds is None else milliseconds * _MILLISECOND


def _milliseconds(duration: timedelta) -> int:
    return round(duration / _MILLISECOND)
