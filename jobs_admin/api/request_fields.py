"""Fields that the requests of several methods share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from trellis_jobs.model.identity import JobAddress

if TYPE_CHECKING:
    from jobs_admin.api.views.jobs import JobPlace


def page_fields(
    *, offset: int, before: JobPlace | None, limit: int, min_seq: int
) -> dict[str, Any]:
    """The fields that select a page of a list."""
    place = place_fields(before) if before else None
    return {"offset": offset, "before": place, "limit": limit, "minSeq": min_seq}


def place_fields(place: JobPlace) -> dict[str, Any]:
    return place.model_dump(mode="json", by_alias=True)


def job_fields(job: str | JobAddress) -> dict[str, str]:
    """The fields that select a job."""
    if isinstance(job, JobAddress):
        return {"id": job.job_id, "service": job.service, "type": job.job_type}
    return {"id": job}
