"""A past for a job: tries that failed before the one that a test is about."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trellis_jobs.model.attempts import Attempt, work_identity
from trellis_jobs.model.events import RetryScheduled, Started
from trellis_jobs.model.job_errors import JobError

if TYPE_CHECKING:
    from trellis_jobs.model.events import Event, EventFields
    from trellis_jobs.model.identity import JobAddress
    from trellis_jobs.testing.memory_worker import MemoryDependencies


async def use_up_tries(doors: MemoryDependencies, job: JobAddress, count: int) -> None:
    for number in range(1, count + 1):
        attempt = Attempt(doors.environment.new_id(), "earlier", work_identity(1, 1), number)
        now = doors.environment.now()
        error = JobError(type="EarlierTry", message="as the test says", tries=number, at=now)
        said = await _said(doors, job, number)
        await _append(doors, Started(**said, attempt=attempt))
        await _append(doors, RetryScheduled(**said, attempt=attempt, error=error))


async def _said(doors: MemoryDependencies, job: JobAddress, tries: int) -> EventFields:
    latest = await doors.events.latest(job)
    if latest is None:
        raise LookupError(f"the log in memory holds no job {job.job_id}")
    return {"job": job, "context": latest.context, "at": doors.environment.now(), "tries": tries}


async def _append(doors: MemoryDependencies, event: Event) -> None:
    head = await doors.events.head(event.job)
    if head is not None:
        await doors.events.append(head, event)
