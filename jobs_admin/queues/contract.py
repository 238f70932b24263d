"""The contract of a queue, as its workers publish it in the metadata of its consumer."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from jobs_admin.api.errors import ContractMissing
from trellis_jobs.contract.consumer_metadata import BUCKET, CONTRACT, read_contract
from trellis_jobs.contract.schema_types import SchemaType
from trellis_jobs.errors import DeclarationError

if TYPE_CHECKING:
    from trellis_jobs.contract.declaration import JobType
    from trellis_jobs.jetstream.work.queues import ServerQueue

_FIELDS: Final = (CONTRACT, BUCKET)


def published_contract(queue: ServerQueue) -> JobType[Any, Any]:
    """Raises ContractMissing, or DeclarationError if the contract cannot be read."""
    metadata = queue.config.get("metadata") or {}
    fields = tuple((name, metadata[name]) for name in _FIELDS if name in metadata)
    try:
        contract = _read(queue.service, queue.job_type, fields)
    except DeclarationError as error:
        raise DeclarationError(
            f"the contract of {queue.name} on the server cannot be used: {error}"
        ) from error
    if contract is None:
        raise ContractMissing(queue.name)
    return contract


@lru_cache(maxsize=256)
def _read(
    service: str, job_type: str, metadata: tuple[tuple[str, str], ...]
) -> JobType[Any, Any] | None:
    """Cached, because reading a contract prepares its JSON Schemas, which takes milliseconds."""
    return read_contract(dict(metadata), service, job_type)


def has_payload_schema(queue: JobType[Any, Any]) -> bool:
    return not (isinstance(queue.payload, SchemaType) and queue.payload.is_open)
