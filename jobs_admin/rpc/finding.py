"""The job that a request means."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jobs_admin.reads import jobs as reads
from jobs_admin.rpc.faults import Invalid, Issue, NotFound

if TYPE_CHECKING:
    from jobs_admin.reads.jobs import StoredJob
    from jobs_admin.reads.readers import Readers
    from jobs_admin.rpc.inputs import JobInput


async def find(readers: Readers, asked: JobInput) -> StoredJob:
    """By its id; by service and type too, where several queues have a job with that id."""
    try:
        found = await reads.find(readers, asked.id, service=asked.service, job_type=asked.type)
    except reads.AmbiguousId as ambiguous:
        raise Invalid(str(ambiguous), [Issue("/id", str(ambiguous))]) from None
    if found is None:
        raise NotFound(asked.id)
    return found
