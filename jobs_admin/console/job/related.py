"""Jobs that have something to do with a job: its key, its request, its trace, its schedule."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from jobs_admin.api.errors import RequestFailed
from jobs_admin.api.filter_text import format_filter
from jobs_admin.api.job_filter import JobFilter

if TYPE_CHECKING:
    from collections.abc import Iterator

    from jobs_admin.api.views.jobs import JobPage, JobView
    from jobs_admin.console.job.job_reads import JobReads
    from trellis_jobs.model.job import Job

_SHOWN: Final = 5
_OF_SCHEDULE: Final = 50


@dataclass(frozen=True, slots=True)
class RelatedJobs:
    """`query` is the text of the filter that lists all `count` of them."""

    title: str
    query: str
    count: int
    jobs: tuple[JobView, ...]


@dataclass(frozen=True, slots=True)
class Neighbours:
    """The jobs that the same schedule created before and after this one, if they are recent."""

    previous: JobView | None
    next: JobView | None


async def related_to(job: Job, reads: JobReads) -> tuple[RelatedJobs, ...]:
    """Groups in which there are other jobs."""
    found = await asyncio.gather(*(_group(reads, *each, job) for each in _filters(job)))
    return tuple(group for group in found if group is not None and group.jobs)


async def neighbours_of(job: Job, reads: JobReads) -> Neighbours:
    if job.run.schedule is None:
        return Neighbours(None, None)
    page = await _page(reads, _of_schedule(job, job.run.schedule), _OF_SCHEDULE)
    return neighbours_in(page, job.id) if page is not None else Neighbours(None, None)


def neighbours_in(page: JobPage, job_id: str) -> Neighbours:
    """The page has the newest job first."""
    ids = [each.id for each in page.entries]
    if job_id not in ids:
        return Neighbours(None, None)
    at = ids.index(job_id)
    older = page.entries[at + 1] if at + 1 < len(ids) else None
    return Neighbours(older, page.entries[at - 1] if at else None)


def _filters(job: Job) -> Iterator[tuple[str, JobFilter]]:
    address, held = job.address, job.run.concurrency
    if held is not None:
        query = JobFilter(service=address.service, type=address.job_type, key=held.key)
        yield f"same key {held.key}", query
    yield "same request", JobFilter(request_id=job.context.request_id)
    yield "same trace", JobFilter(trace_id=job.context.trace_id)
    if job.run.schedule is not None:
        yield f"same schedule {job.run.schedule}", _of_schedule(job, job.run.schedule)


def _of_schedule(job: Job, schedule: str) -> JobFilter:
    return JobFilter(service=job.address.service, type=job.address.job_type, schedule=schedule)


async def _group(reads: JobReads, title: str, query: JobFilter, job: Job) -> RelatedJobs | None:
    page = await _page(reads, query, _SHOWN + 1)
    if page is None:
        return None
    others = tuple(each for each in page.entries if each.id != job.id)[:_SHOWN]
    return RelatedJobs(title, format_filter(query), page.count, others)


async def _page(reads: JobReads, query: JobFilter, limit: int) -> JobPage | None:
    """None if the admin runtime refuses: a key may be too long for a filter, for example."""
    try:
        return await reads.list_jobs(query, limit=limit)
    except RequestFailed:
        return None
