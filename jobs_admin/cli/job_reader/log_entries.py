"""Read and follow a job in the log, without an admin runtime."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager

from jobs_admin.api.errors import Invalid
from jobs_admin.api.views.jobs import JobSecrets, LogEntry
from jobs_admin.explain import views
from trellis_jobs.errors import JobNotFound, WaitTimeout
from trellis_jobs.jetstream.client.connection import Connection
from trellis_jobs.jetstream.log.history import Histories
from trellis_jobs.jetstream.log.job_lookup import jobs_with_id
from trellis_jobs.model import subjects
from trellis_jobs.model.identity import JobAddress
from trellis_jobs.model.job import Job, fold
from trellis_jobs.model.timeline import TimelineEntry, apply


async def address_in_log(connection: Connection, job: str | JobAddress) -> JobAddress:
    """Raises JobNotFound, or Invalid if several queues have a job with this id."""
    job_id = job.job_id if isinstance(job, JobAddress) else job
    found = [each for each in await jobs_with_id(connection, job_id) if job in (each, job_id)]
    if not found:
        raise JobNotFound(job_id)
    if len(found) > 1:
        names = " or ".join(f"{each.service}/{each.job_type}/{job_id}" for each in found)
        raise Invalid(f"several queues have a job {job_id}: use {names}")
    return found[0]


async def entries_in_log(connection: Connection, job: str | JobAddress) -> list[LogEntry]:
    """As Jobs.Events returns them."""
    address = await address_in_log(connection, job)
    stored = await Histories(connection).messages(address)
    if not stored:
        raise JobNotFound(address.job_id)
    return views.log_entries(stored)


async def secrets_in_log(connection: Connection, job: str | JobAddress) -> JobSecrets:
    """As Jobs.GetSecrets returns them."""
    address = await address_in_log(connection, job)
    found = fold((await Histories(connection).history_slice(address)).entries)
    if found is None:
        raise JobNotFound(address.job_id)
    return views.job_secrets(found)


async def follow_job(
    connection: Connection, job: str | JobAddress
) -> AsyncGenerator[tuple[TimelineEntry, bool], None]:
    """Each message of the job with its effect, and whether it is the newest so far."""
    address = await address_in_log(connection, job)
    known = None
    messages = Histories(connection).follow_messages(subjects.history(address))
    async with aclosing(messages):
        async for message in messages:
            step = apply(known, views.log_record(message))
            known = step.job
            yield step, message.pending == 0


async def follow_until_ended(
    connection: Connection, job: str | JobAddress, on_message: Callable[[TimelineEntry], object]
) -> Job:
    """Return the job when it has ended."""
    async with aclosing(follow_job(connection, job)) as steps:
        async for step, is_newest in steps:
            on_message(step)
            if is_newest and step.job is not None and step.job.is_over:
                return step.job
    raise AssertionError("following a job never ends by itself")


@asynccontextmanager
async def job_timeout(timeout: float | None, job: str | JobAddress) -> AsyncIterator[None]:
    """Raises WaitTimeout."""
    try:
        async with asyncio.timeout(timeout):
            yield
    except TimeoutError:
        job_id = job if isinstance(job, str) else job.job_id
        raise WaitTimeout(job_id, timeout or 0) from None
