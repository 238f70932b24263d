"""Dead jobs by the hundred, and what operations did to them."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from jobs_admin.api.client import AdminClient
from jobs_admin.api.views.operations import OperationView
from tests.given import NOON, created, dead, started
from tests.support.facts import until
from tests.support.lab import Probe
from trellis_jobs.jetstream.log.event_log import EventLog
from trellis_jobs.model import events as e
from trellis_jobs.model.identity import JobAddress
from trellis_jobs.model.job_status import Head

_AT_ONCE = 50


def numbered(number: int, queue: str = "work") -> JobAddress:
    return JobAddress("lab", queue, f"job-{number:04}")


async def write(events: EventLog, *story: e.Event) -> int:
    """A job as if it had run; the sequence of its newest event."""
    head: Head | None = None
    for event in story:
        answer = await events.try_append(head, event)
        assert isinstance(answer, Head)
        head = answer
    assert head is not None
    return head.sequence


def death(job: JobAddress, at: datetime, **payload: Any) -> list[e.Event]:
    of_job = {"job": job, "at": at}
    return [created(**of_job, **payload), started(**of_job), dead(**of_job)]


async def die(raw: Probe, count: int, *, first: int = 0, queue: str = "work") -> list[JobAddress]:
    """The later ones are newer, so an operation takes them up first."""
    jobs = [numbered(number, queue) for number in range(first, first + count)]
    free = asyncio.Semaphore(_AT_ONCE)

    async def one(number: int, job: JobAddress) -> None:
        async with free:
            await write(raw.events, *death(job, NOON + timedelta(seconds=number)))

    await asyncio.gather(*(one(first + n, job) for n, job in enumerate(jobs)))
    return jobs


async def until_over(client: AdminClient, operation: OperationView) -> OperationView:
    async def over() -> OperationView | None:
        now = await client.get_operation(operation.id)
        return now if now.is_over else None

    return await until(over, "the operation is over")


async def until_done(client: AdminClient, operation: OperationView, jobs: int) -> None:
    async def so_far() -> bool:
        return (await client.get_operation(operation.id)).done >= jobs

    await until(so_far, f"{jobs} jobs are done")


async def changes_of(
    raw: Probe, jobs: Sequence[JobAddress], kind: e.EventKind
) -> dict[JobAddress, list[e.Event]]:
    """The events of that kind, by job, as the log has them."""
    histories = await asyncio.gather(*(raw.events.history(job) for job in jobs))
    return {
        job: [entry.event for entry in history if entry.event.kind is kind]
        for job, history in zip(jobs, histories, strict=True)
    }


async def times_changed(
    raw: Probe, jobs: Sequence[JobAddress], kind: e.EventKind = e.EventKind.RETRIED
) -> Counter[int]:
    """How many jobs were changed how often."""
    return Counter(len(events) for events in (await changes_of(raw, jobs, kind)).values())
