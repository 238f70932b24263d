"""Adds failed tries and snoozes to a job, before the try that a test is about."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trellis_jobs.model.attempts import Attempt, work_identity
from trellis_jobs.model.events import RetryScheduled, Started
from trellis_jobs.model.job_errors import Interruption, JobError

if TYPE_CHECKING:
    from trellis_jobs.model.events import Event, EventFields
    from trellis_jobs.model.identity import JobAddress
    from trellis_jobs.testing.memory_dependencies import MemoryDependencies


async def use_up_tries(
    dependencies: MemoryDependencies, job: JobAddress, count: int, *, snoozes: int
) -> None:
    for number in range(1, snoozes + 1):
        await _end_try(dependencies, job, number, tries=1, kind=Interruption.SNOOZE)
    for number in range(1, count + 1):
        await _end_try(dependencies, job, snoozes + number, tries=number, kind="EarlierTry")


async def _end_try(
    dependencies: MemoryDependencies, job: JobAddress, delivery: int, *, tries: int, kind: str
) -> None:
    """Starts a try and ends it. A snooze gives the try back."""
    now = dependencies.environment.now()
    attempt = Attempt(dependencies.environment.new_id(), "earlier", work_identity(1, 1), delivery)
    error = JobError(type=kind, message="a try before the tested one", tries=tries, at=now)
    fields = await _event_fields(dependencies, job, tries)
    await _append(dependencies, Started(**fields, attempt=attempt))
    if kind == Interruption.SNOOZE:
        fields["tries"] -= 1
    await _append(dependencies, RetryScheduled(**fields, attempt=attempt, error=error))


async def _event_fields(
    dependencies: MemoryDependencies, job: JobAddress, tries: int
) -> EventFields:
    latest = await dependencies.events.latest(job)
    if latest is None:
        raise LookupError(f"the in-memory log has no job {job.job_id}")
    fields = latest.event_fields(job, dependencies.environment.now())
    fields["tries"] = tries
    return fields


async def _append(dependencies: MemoryDependencies, event: Event) -> None:
    head = await dependencies.events.head(event.job)
    if head is not None:
        await dependencies.events.append(head, event)
