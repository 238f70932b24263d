"""The job that a request means."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jobs_admin.api.error_envelope import Fault, Invalid, NotFound
from jobs_admin.api.errors import Issue
from jobs_admin.reads import jobs as reads
from jobs_admin.reads.read_your_writes import caught_up
from trellis_jobs.model.identity import JobAddress

if TYPE_CHECKING:
    from jobs_admin.api.inputs import JobInput
    from jobs_admin.reads.jobs import StoredJob
    from jobs_admin.reads.read_your_writes import LogProgress
    from jobs_admin.reads.readers import Readers


async def find(readers: Readers, progress: LogProgress, asked: JobInput) -> StoredJob:
    """By its id; by service and type too, where several queues have a job with that id.

    A job that seems not to be there may have been created a moment ago: that there is none can be
    said only at the end of the log.
    """
    await caught_up(progress, asked.min_seq)
    found = await _look(readers, asked)
    if found is None:
        unreached = await progress.reached_the_end()
        found = await _look(readers, asked)
        if found is None and unreached is not None:
            raise _not_known_yet(asked.id, progress.position, unreached)
    if found is None:
        raise NotFound(asked.id)
    return found


async def address_of(readers: Readers, progress: LogProgress, asked: JobInput) -> JobAddress:
    """Where service and type are said, the log alone decides whether there is such a job."""
    if asked.service is not None and asked.type is not None:
        await caught_up(progress, asked.min_seq)
        return JobAddress(asked.service, asked.type, asked.id)
    found = await find(readers, progress, asked)
    return JobAddress(found.service, found.type, found.id)


def _not_known_yet(job_id: str, position: int, end: int) -> Fault:
    return Fault(
        f"the projection is at {position} of {end}, and knows no job {job_id} so far: ask again "
        "when it has caught up, or say service and type too where the log alone can answer"
    )


async def _look(readers: Readers, asked: JobInput) -> StoredJob | None:
    try:
        return await reads.find(readers, asked.id, service=asked.service, job_type=asked.type)
    except reads.AmbiguousId as ambiguous:
        raise Invalid(str(ambiguous), [Issue("/id", str(ambiguous))]) from None
