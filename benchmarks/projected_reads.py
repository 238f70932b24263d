"""Questions to a projection of many jobs, and how long each takes."""

from __future__ import annotations

import statistics
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator
from datetime import timedelta
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, Final

from benchmarks import projected_log
from benchmarks.report import Report
from jobs_admin.api.job_filter import JobFilter
from jobs_admin.projection.batch import Changes, JobRow
from jobs_admin.projection.rows import microseconds
from jobs_admin.projection.store import Projection
from jobs_admin.projection.writer import Writer
from jobs_admin.reads import jobs as reads
from jobs_admin.reads.dead_groups import dead_groups
from jobs_admin.reads.keys import busy
from jobs_admin.reads.readers import Readers
from jobs_admin.reads.services import page as services
from jobs_admin.reads.stats import stats
from trellis_jobs.jetstream.log.feed import LogPosition
from trellis_jobs.model.job import Job
from trellis_jobs.model.states import JobState

Ask = Callable[[Readers, int], Awaitable[Any]]
_DEAD: Final = JobFilter(state=[JobState.DEAD])


async def measure(path: Path, over: int, keyed: int, times: int) -> Report:
    """Of a file that was filled so."""
    async with Readers.open(path) as readers:
        return {
            name: await latencies(partial(ask, readers), times)
            for name, ask in (*_lists(over), *_narrow_lists(over, keyed), *_overviews(keyed))
        }


async def fill(path: Path, over: int, keyed: int) -> None:
    """Rows without a log: of jobs that are over, and of others with keys that are not."""
    async with Projection.open(path, bulk=True) as projection:
        jobs = iter(_jobs(over, keyed))
        while some := list(islice(jobs, 10_000)):
            changes = Changes(LogPosition(sequence=some[-1][0] + 2))
            for sequence, job in some:
                begun_at, moved_at = microseconds(job.created_at), microseconds(job.updated_at)
                row = JobRow(sequence, job, sequence + 2, moved_at, begun_at, moved_at)
                changes.jobs[job.address] = row
                changes.begun.append((sequence, job))
            await projection.do(Writer.apply, changes)
        await projection.do(Writer.add_indexes)
        await projection.do(Writer.seal)


def _jobs(over: int, keyed: int) -> Iterator[tuple[int, Job]]:
    """With the sequences of their first events."""
    for number in range(over + keyed):
        sequence = 1 + projected_log.EVENTS_A_JOB * number
        yield (
            sequence,
            projected_log.folded(number, sequence)
            if number < over
            else projected_log.waiting(number, sequence, keys=keys_of(keyed)),
        )


def keys_of(keyed: int) -> int:
    """Three jobs to a key."""
    return max(1, keyed // 3)


def _listing(wanted: Callable[[int], JobFilter], offset: int = 0) -> Ask:
    return lambda readers, n: reads.page(readers, wanted(n), offset=offset, limit=50)


def _lists(jobs: int) -> Iterable[tuple[str, Ask]]:
    """Each is asked about something else every time."""
    some = projected_log.address
    return [
        ("get", lambda readers, n: reads.find(readers, some(n * 37 % jobs).job_id)),
        ("newest", _listing(lambda _: JobFilter())),
        ("page 100", _listing(lambda _: JobFilter(), offset=min(5_000, jobs // 2))),
        ("one state", _listing(lambda _: JobFilter(state=[JobState.FAILED]))),
        ("several states", _listing(lambda _: JobFilter(state=[JobState.FAILED, JobState.DEAD]))),
        ("service", _listing(lambda n: JobFilter(service=some(n).service))),
        ("type", _listing(lambda n: JobFilter(type=some(n).job_type))),
        (
            "service, type, state",
            _listing(
                lambda n: JobFilter(
                    service=some(n).service, type=some(n).job_type, state=[JobState.FAILED]
                )
            ),
        ),
    ]


def _narrow_lists(jobs: int, keyed: int) -> Iterable[tuple[str, Ask]]:
    some, begin = projected_log.address, projected_log.BEGIN
    middle = begin + timedelta(milliseconds=5 * jobs)
    recent = middle + timedelta(milliseconds=5 * jobs, seconds=-10)

    def later(n: int) -> timedelta:
        return timedelta(milliseconds=n)

    return [
        ("since", _listing(lambda n: JobFilter(since=recent + later(n)))),
        ("since, half of all", _listing(lambda n: JobFilter(since=middle + later(n)))),
        ("until", _listing(lambda n: JobFilter(until=begin + timedelta(seconds=10) + later(n)))),
        ("until, half of all", _listing(lambda n: JobFilter(until=middle + later(n)))),
        ("id prefix", _listing(lambda n: JobFilter(id_prefix=some(n * 37 % jobs).job_id[:-2]))),
        ("payload value", _listing(lambda n: JobFilter(payload={"customer": n % 1000}))),
        ("key", _listing(lambda n: JobFilter(key=f"customer:{n % keys_of(keyed)}"))),
        ("error text", _listing(lambda n: JobFilter(error=f"UPSTREAM {n % 50}"))),
        (
            "error text, since",
            _listing(lambda n: JobFilter(error=f"UPSTREAM {n % 50}", since=middle)),
        ),
    ]


def _overviews(keyed: int) -> Iterable[tuple[str, Ask]]:
    now, service = projected_log.BEGIN, projected_log.address(0).service
    deep = keyed // 4
    return [
        ("keys", lambda readers, _: busy(readers, offset=0, limit=50)),
        ("keys, far down", lambda readers, _: busy(readers, offset=deep, limit=50)),
        (
            "keys of a service",
            lambda readers, _: busy(readers, service=service, offset=0, limit=50),
        ),
        ("dead groups", lambda readers, _: dead_groups(readers, _DEAD, offset=0, limit=50)),
        ("services", lambda readers, _: services(readers, now=now, offset=0, limit=50)),
        ("stats", lambda readers, _: stats(readers, now=now)),
    ]


async def latencies(ask: Callable[[int], Awaitable[Any]], times: int) -> dict[str, float]:
    """In milliseconds; each time it is told the number of the question."""
    took = []
    for number in range(times):
        began = time.perf_counter()
        await ask(number)
        took.append((time.perf_counter() - began) * 1e3)
    cuts = statistics.quantiles(took, n=100, method="inclusive")
    return {"p50": cuts[49], "p99": cuts[98]}
