"""Many dead jobs replayed by the admin runtime, beside bare appends of the same events."""

from __future__ import annotations

import asyncio
import statistics
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import uvloop
from rich.console import Group
from rich.table import Table

from benchmarks import projected_log
from benchmarks.report import Report, Say
from jobs_admin.api.client import AdminClient
from jobs_admin.api.job_filter import JobFilter
from jobs_admin.api.views.operations import OperationVerb, OperationView
from jobs_admin.cli.run import collect_rarely
from jobs_admin.config import AdminConfig
from jobs_admin.daemon import serving
from jobs_admin.operations.page_work import MAX_CONCURRENT
from jobs_admin.projection.rebuild import rebuild
from trellis_jobs.contract.topology import Topology
from trellis_jobs.jetstream.client.connection import Connection
from trellis_jobs.jetstream.log.event_log import EventLog
from trellis_jobs.jetstream.log.feed import LogFeed
from trellis_jobs.jetstream.setup.features import detect_features
from trellis_jobs.jetstream.setup.provision import provision
from trellis_jobs.model import events as e
from trellis_jobs.model.identity import JobAddress
from trellis_jobs.model.job_errors import JobError
from trellis_jobs.model.job_status import Head
from trellis_jobs.model.values import replace

POLL_INTERVAL: Final = 0.05


@dataclass(frozen=True, slots=True)
class Size:
    rounds: int
    jobs: int


USUAL: Final = Size(rounds=3, jobs=20_000)
QUICK: Final = Size(rounds=1, jobs=200)


def measure(url: str, size: Size, say: Say) -> Report:
    collect_rarely()
    return uvloop.run(_measure(url, size, say))


async def _measure(url: str, size: Size, say: Say) -> Report:
    connection = await Connection.open(url, name="bench")
    try:
        features = await detect_features(connection)
        await provision(connection, Topology(features))
        events = EventLog(connection, features)
        bare, replayed = [], []
        for number in range(size.rounds):
            say(f"replaying {size.jobs:,} dead jobs, round {number + 1} of {size.rounds}")
            dead = await _die(events, f"bare-{number}", size.jobs)
            bare.append(await _bare(events, dead))
            await _die(events, f"operation-{number}", size.jobs)
            replayed.append(await _operation(connection, url, f"operation-{number}", size.jobs))
    finally:
        await connection.close()
    rates = {"bare": statistics.median(bare), "operation": statistics.median(replayed)}
    return {
        "operated_jobs": size.jobs,
        "operated_per_second": rates,
        "operation_ratio": rates["operation"] / rates["bare"],
    }


async def _die(events: EventLog, service: str, jobs: int) -> list[tuple[e.Retried, Head]]:
    """In the log as if they had run; what would replay each, and where it stands."""
    free = asyncio.Semaphore(MAX_CONCURRENT)

    async def one(number: int) -> tuple[e.Retried, Head]:
        async with free:
            head: Head | None = None
            for event in _death(service, number):
                head = await _appended(events, head, event)
            assert head is not None
            return _retried(service, number), head

    return await asyncio.gather(*map(one, range(jobs)))


def _death(service: str, number: int) -> Sequence[e.Event]:
    begun, started, _ = projected_log.history(number)
    job = JobAddress(service, begun.job.job_type, begun.job.job_id)
    error = JobError(type="HTTPError", message=f"503 of order {number}", tries=1, at=started.at)
    assert isinstance(started, e.Started)
    died = e.Dead(
        job=job,
        context=begun.context,
        at=started.at,
        tries=1,
        attempt=started.attempt,
        concurrency=None,
        error=error,
    )
    return replace(begun, job=job), replace(started, job=job), died


def _retried(service: str, number: int) -> e.Retried:
    begun, *_ = _death(service, number)
    assert isinstance(begun, e.Created)
    return e.Retried(
        job=begun.job,
        context=begun.context,
        at=begun.at,
        tries=0,
        payload=begun.payload,
        max_tries=begun.max_tries,
        by="bench",
    )


async def _bare(events: EventLog, dead: Sequence[tuple[e.Retried, Head]]) -> float:
    """As many appends at once, each with its guard at hand."""
    free = asyncio.Semaphore(MAX_CONCURRENT)

    async def one(retried: e.Retried, head: Head) -> None:
        async with free:
            await _appended(events, head, retried)

    began = time.perf_counter()
    await asyncio.gather(*(one(*each) for each in dead))
    return len(dead) / (time.perf_counter() - began)


async def _operation(connection: Connection, url: str, service: str, jobs: int) -> float:
    """From the request until the daemon says that it is done, with its projection beside it."""
    with tempfile.TemporaryDirectory() as folder:
        config = AdminConfig(nats=url, path=Path(folder) / "jobs.sqlite")
        await rebuild(config.path, LogFeed(connection))
        async with serving(config), AdminClient.connect(url, timeout=60) as client:
            query = JobFilter(service=service)
            began = time.perf_counter()
            over = await _until_over(client, await client.operate(OperationVerb.REPLAY, query))
            seconds = time.perf_counter() - began
    assert over.done == jobs, over
    return jobs / seconds


async def _until_over(client: AdminClient, operation: OperationView) -> OperationView:
    while not operation.is_over:
        await asyncio.sleep(POLL_INTERVAL)
        operation = await client.get_operation(operation.id)
    return operation


async def _appended(events: EventLog, head: Head | None, event: e.Event) -> Head:
    answer = await events.try_append(head, event)
    assert isinstance(answer, Head)
    return answer


def table(measured: Report) -> Group:
    rates = measured["operated_per_second"]
    shown = Table("", "jobs/s", title=f"{measured['operated_jobs']:,} dead jobs replayed")
    shown.add_row("bare guarded appends", f"{rates['bare']:,.0f}")
    shown.add_row("an operation", f"{rates['operation']:,.0f}")
    shown.add_row("operation / bare", f"{measured['operation_ratio']:.2f}")
    return Group(shown)
