"""Finds the job that a request names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jobs_admin.api.error_envelope import Fault, Invalid, NotFound
from jobs_admin.api.errors import Issue
from jobs_admin.reads import jobs as reads
from jobs_admin.reads.read_your_writes import wait_for_position
from trellis_jobs.model.identity import JobAddress

if TYPE_CHECKING:
    from jobs_admin.api.inputs import JobInput
    from jobs_admin.reads.jobs import StoredJob
    from jobs_admin.reads.read_your_writes import LogProgress
    from jobs_admin.reads.readers import Readers


async def find(readers: Readers, progress: LogProgress, request: JobInput) -> StoredJob:
    """Find a job by id, and by service and type if several queues have a job with that id.

    A job that the projection does not know may have been created a moment ago, so NotFound is
    raised only after the projection has reached the end of the log.
    """
    await wait_for_position(progress, request.min_seq)
    found = await _lookup(readers, request)
    if found is None:
        unreached = await progress.wait_for_end()
        found = await _lookup(readers, request)
        if found is None and unreached is not None:
            raise _not_known_yet(request.id, progress.position, unreached)
    if found is None:
        raise NotFound(request.id)
    return found


async def address_of(readers: Readers, progress: LogProgress, request: JobInput) -> JobAddress:
    """Return the job's address. With service and type, the projection need not know the job."""
    if request.service is not None and request.type is not None:
        await wait_for_position(progress, request.min_seq)
        return JobAddress(request.service, request.type, request.id)
    found = await find(readers, progress, request)
    return JobAddress(found.service, found.type, found.id)


def _not_known_yet(job_id: str, position: int, end: int) -> Fault:
    return Fault(
        f"the projection is at {position} of {end} and does not know job {job_id} yet: try again "
        "when it has caught up, or pass service and type to read the job from the log"
    )


async def _lookup(readers: Readers, request: JobInput) -> StoredJob | None:
    try:
        return await reads.find(readers, request.id, service=request.service, job_type=request.type)
    except reads.AmbiguousId as ambiguous:
        raise Invalid(str(ambiguous), [Issue("/id", str(ambiguous))]) from None
