"""Manifests: contracts as JSON documents, with the `jobs` map of the original runtimes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from pydantic import Field, ValidationError
from pydantic.json_schema import GenerateJsonSchema

from trellis_jobs.contract.declaration import JobType, ServiceContract, declare_queue
from trellis_jobs.contract.documents import Part, Token, first_error
from trellis_jobs.contract.option import with_fields
from trellis_jobs.contract.option_kinds import Count
from trellis_jobs.contract.queue_options import QUEUE_OPTIONS
from trellis_jobs.contract.schedule_entry import ScheduleEntries  # noqa: F401 - a type by name
from trellis_jobs.contract.schema_types import DigestOnlyType, SchemaType
from trellis_jobs.contract.versions import Upgrade, oldest_supported, upgraded_elsewhere
from trellis_jobs.errors import DeclarationError

if TYPE_CHECKING:
    from trellis_jobs.contract.payload_types import PayloadType

FORMAT: Final = "trellis.jobs.service@v1"
# Far more than a service has, since each upgrade is a function in its code.
_MAX_UPGRADES: Final = 1_000
_WRITTEN_OPTIONS: Final = tuple(option for option in QUEUE_OPTIONS if option.field is not None)


class _WithoutTitles(GenerateJsonSchema):
    """Leave out titles, which only repeat the field names."""

    def field_title_should_be_set(self, _schema: object) -> bool:
        return False


class TypeEntry(Part):
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


@with_fields(QUEUE_OPTIONS)
class QueueEntry(Part):
    payload: PayloadEntry
    result: TypeEntry = TypeEntry()


class Manifest(Part):
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
    return _with_unknown(to_manifest(_contract(read)), read)


def _with_unknown(written: dict[str, Any], read: Part) -> dict[str, Any]:
    parts = {
        str(field.alias): getattr(read, name) for name, field in type(read).model_fields.items()
    }
    inner = {
        name: _with_unknown_inside(written[name], part)
        for name, part in parts.items()
        if name in written
    }
    return {**written, **inner, **(read.model_extra or {})}


def _with_unknown_inside(written: Any, read: Any) -> Any:
    """A part of the manifest, or parts by name."""
    if isinstance(read, Part):
        return _with_unknown(written, read)
    if isinstance(read, dict) and any(isinstance(part, Part) for part in read.values()):
        return {name: _with_unknown_inside(written[name], part) for name, part in read.items()}
    return written


def _read(document: object) -> Manifest:
    try:
        return Manifest.model_validate(document)
    except ValidationError as error:
        raise DeclarationError(f"not a manifest: {first_error(error)}") from None


def _contract(manifest: Manifest) -> ServiceContract:
    queues = {name: _queue(name, entry) for name, entry in manifest.jobs.items()}
    return ServiceContract(manifest.service, queues)


def _entry(queue: JobType[Any, Any]) -> QueueEntry:
    options = {
        option.field: option.kind.to_json(option.value_of(queue)) for option in _WRITTEN_OPTIONS
    }
    types = {"payload": _payload_entry(queue), "result": TypeEntry(**_type_fields(queue.result))}
    return QueueEntry.model_validate({**types, **options})


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


def _queue(name: str, entry: QueueEntry) -> JobType[Any, Any]:
    try:
        values = {option.name: option.from_entry(entry) for option in _WRITTEN_OPTIONS}
        if values["key"] is None:
            # `queue` without `keyConcurrency` has no effect, as in the original runtimes.
            values["queue"] = None
        values["version"] = entry.payload.version or 1
        values["upgrades"] = _upgrades(entry.payload)
        payload, result = _payload_type(entry.payload), _payload_type(entry.result)
        return declare_queue(name, payload, result, values)
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
