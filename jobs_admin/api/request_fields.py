"""The bodies of requests, from fields with Python names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pydantic import BaseModel
from pydantic.alias_generators import to_camel

from trellis_jobs.model.identity import JobAddress
from trellis_jobs.wire.fields import dumps

if TYPE_CHECKING:
    from collections.abc import Mapping

    from jobs_admin.api.job_filter import JobFilter
    from jobs_admin.api.worker_filter import WorkerFilter


def request_body(fields: Mapping[str, Any]) -> bytes:
    """Leave out the fields that are None: the admin runtime does not take null."""
    return dumps(
        {to_camel(name): _json(value) for name, value in fields.items() if value is not None}
    )


def _json(value: Any) -> Any:
    return value.model_dump(mode="json", by_alias=True) if isinstance(value, BaseModel) else value


def job_fields(job: str | JobAddress) -> dict[str, str]:
    """The fields that select a job."""
    if isinstance(job, JobAddress):
        return {"id": job.job_id, "service": job.service, "type": job.job_type}
    return {"id": job}


def filter_fields(query: JobFilter) -> dict[str, Any]:
    """The fields that select jobs."""
    return query.model_dump(mode="json", exclude_none=True)


def worker_fields(query: WorkerFilter) -> dict[str, Any]:
    """The fields that select worker processes."""
    return query.model_dump(mode="json", exclude_defaults=True)
