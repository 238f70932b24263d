"""What operators are told about services, their workers, and how the work goes."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path

import orjson
from hypothesis import given
from hypothesis import strategies as st

from jobs_admin.api.views.base import Page
from jobs_admin.api.views.services import ServiceView, TypeView
from jobs_admin.projection.batch import project, read
from jobs_admin.projection.store import Projection
from jobs_admin.projection.writer import Writer
from jobs_admin.reads import services
from jobs_admin.reads.readers import Readers
from jobs_admin.reads.stats import stats, whole_slots
from tests.admin.made_log import BILLING, Scribe, of
from tests.given import NOON, REPORT, after, completed, created, retry_scheduled, snoozed, started
from trellis_jobs.model.identity import JobAddress


@asynccontextmanager
async def projected(folder: Path, log: Scribe) -> AsyncIterator[Readers]:
    path = folder / "jobs.sqlite"
    async with Projection.open(path) as projection:
        readings = read(log.messages)
        rows = await projection.do(Writer.load, readings.events.keys())
        await projection.do(Writer.apply, project(readings, rows))
        async with Readers.open(path) as readers:
            yield readers


async def one_page(readers: Readers, seconds: float = 0, **page: int) -> Page[ServiceView]:
    limits = {"offset": 0, "limit": 100, **page}
    return await services.page(readers, now=after(seconds), **limits)


def types_of(page: Page[ServiceView]) -> dict[str, TypeView]:
    return {each.type: each for entry in page.entries for each in entry.types}


async def test_a_service_shows_its_live_workers_by_type_and_name(tmp_path: Path) -> None:
    log = Scribe().beat("pod-9").beat("pod-7", concurrency=4, version="1.2").beat("pod-1", BILLING)
    async with projected(tmp_path, log) as readers:
        page = await one_page(readers, seconds=10)
    assert [entry.name for entry in page.entries] == ["billing", "documents"]
    assert page.entries[1].healthy is True
    workers = [orjson.loads(worker.encode()) for worker in page.entries[1].workers]
    assert workers == [
        {
            "service": "documents",
            "jobType": "render-report",
            "instanceId": "pod-7",
            "timestamp": NOON.isoformat().replace("+00:00", "Z"),
            "concurrency": 4,
            "version": "1.2",
        },
        {
            "service": "documents",
            "jobType": "render-report",
            "instanceId": "pod-9",
            "timestamp": NOON.isoformat().replace("+00:00", "Z"),
        },
    ]


async def test_a_worker_is_gone_ninety_seconds_after_its_last_heartbeat(tmp_path: Path) -> None:
    log = Scribe().write(created()).beat("pod-7")
    async with projected(tmp_path, log) as readers:
        fresh, old = await one_page(readers, 90), await one_page(readers, 90.1)
    assert [len(page.entries[0].workers) for page in (fresh, old)] == [1, 0]


async def test_a_worker_that_took_its_leave_is_gone_at_once(tmp_path: Path) -> None:
    log = Scribe().write(created()).beat("pod-7").beat("pod-8").beat("pod-7", stopping=True)
    async with projected(tmp_path, log) as readers:
        page = await one_page(readers, 1)
    assert [each.instance_id for each in page.entries[0].workers] == ["pod-8"]


async def test_work_without_a_worker_is_flagged(tmp_path: Path) -> None:
    again = JobAddress(BILLING.service, "remind", "01JQEXAMP1E0000000000000CC")
    log = Scribe().write(created(), *of(BILLING, created(), started(), completed()))
    log.write(*of(again, created(), started(), retry_scheduled()))
    async with projected(tmp_path, log) as readers:
        page = await one_page(readers, 30)
    types = types_of(page)
    assert types["render-report"].unattended
    assert types["render-report"].pending == 1
    assert types["render-report"].oldest_pending_at == NOON
    assert types["remind"].unattended
    assert not types["send-invoice"].unattended
    assert [entry.healthy for entry in page.entries] == [False, False]


async def test_waiting_work_with_a_live_worker_is_attended(tmp_path: Path) -> None:
    async with projected(tmp_path, Scribe().write(created()).beat()) as readers:
        page = await one_page(readers, 30)
    assert page.entries[0].healthy
    assert types_of(page)["render-report"].live_workers == 1


async def test_services_are_counted_whole_and_shown_by_the_page(tmp_path: Path) -> None:
    log = Scribe()
    for n in range(7):
        log.beat("pod", JobAddress(f"service-{n}", "work", "x"))
    async with projected(tmp_path, log) as readers:
        page = await one_page(readers, offset=4, limit=2)
    assert page.count == 7
    assert [entry.name for entry in page.entries] == ["service-4", "service-5"]


async def test_stats_count_states_and_tell_how_long_the_oldest_job_waits(tmp_path: Path) -> None:
    log = Scribe().write(created(), *of(BILLING, created(), started(), completed()))
    async with projected(tmp_path, log) as readers:
        told = await stats(readers, now=after(42))
    assert told.states == {"pending": 1, "completed": 1}
    assert told.oldest_pending_age_ms == 42_000
    assert [(each.service, each.states) for each in told.types] == [
        ("billing", {"completed": 1}),
        ("documents", {"pending": 1}),
    ]


async def test_rates_are_per_minute_over_the_minutes_that_are_over(tmp_path: Path) -> None:
    log = Scribe(after(-60))
    for n in range(10):
        log.write(created(job=JobAddress("documents", "render-report", f"job-{n}")))
    log.later(60).write(*of(BILLING, created(), started()))
    async with projected(tmp_path, log) as readers:
        now = await stats(readers, now=after(30), window=timedelta(minutes=5))
        later = await stats(readers, now=after(90), window=timedelta(minutes=1))
    assert now.per_minute == {"created": 2.0}
    assert later.per_minute == {"created": 1.0, "started": 1.0}


async def test_snoozes_are_not_counted_as_failed_tries(tmp_path: Path) -> None:
    log = Scribe().write(created(), started(), snoozed(), started(), retry_scheduled())
    async with projected(tmp_path, log) as readers:
        told = await stats(readers, now=after(90), window=timedelta(minutes=2))
        day = await stats(readers, now=after(7200), window=timedelta(hours=4))
    assert told.per_minute == {"created": 0.5, "started": 1.0, "retry": 0.5, "snoozed": 0.5}
    assert day.per_minute.keys() == told.per_minute.keys()


async def test_stats_can_be_asked_of_one_service_and_one_type(tmp_path: Path) -> None:
    log = Scribe().write(created(), *of(BILLING, created()))
    async with projected(tmp_path, log) as readers:
        of_service = await stats(readers, now=NOON, service="billing")
        of_type = await stats(readers, now=NOON, job_type=REPORT.job_type)
        of_unknown = await stats(readers, now=NOON, service="unknown")
    assert [each.service for each in of_service.types] == ["billing"]
    assert [each.service for each in of_type.types] == ["documents"]
    assert of_unknown.types == ()
    assert of_unknown.oldest_pending_age_ms == 0


@given(st.integers(0, 10_000), st.integers(1, 1_440))
def test_a_window_is_whole_hours_and_the_minutes_around_them(since: int, minutes: int) -> None:
    """A day was the sum of 1,440 rows for each kind of event: 295 ms at a million jobs."""
    first, last, *around = whole_slots(since, since + minutes, 60)
    summed = [*range(first * 60, last * 60), *range(*around[:2]), *range(*around[2:])]
    assert sorted(summed) == list(range(since, since + minutes))
    assert sum(end - begin for begin, end in (around[:2], around[2:])) < 120


async def test_rates_of_a_day_are_the_sum_of_its_hours_and_minutes(tmp_path: Path) -> None:
    log = Scribe()
    for number in range(30):
        job = JobAddress("billing", "send", f"job-{number}")
        log.write(*of(job, created())).later(60 * 49)
    now = after(60 * 49 * 30)
    async with projected(tmp_path, log) as readers:
        for hours, jobs in ((24, 29), (10, 12), (1, 1)):
            told = await stats(readers, now=now, window=timedelta(hours=hours))
            assert told.per_minute["created"] == round(jobs / (60 * hours), 2), hours
