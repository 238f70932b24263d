"""Lists: every filter finds exactly its jobs, in a stable order, through an index."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from datetime import timedelta
from itertools import product
from pathlib import Path
from typing import Any

import orjson
import pytest

from jobs_admin.api.job_filter import JobFilter
from jobs_admin.api.views.jobs import JobCursor
from jobs_admin.projection.ingest import Ingest
from jobs_admin.projection.store import Projection
from jobs_admin.reads import jobs as reads
from jobs_admin.reads.job_filter import by_age, narrowest
from jobs_admin.reads.readers import Readers
from tests.admin.made_log import Scribe, of
from tests.given import after, completed, created, dead, error, started
from trellis_jobs.jetstream.log.feed import LogPosition
from trellis_jobs.model import events as e
from trellis_jobs.model.concurrency import Concurrency
from trellis_jobs.model.context import JobContext
from trellis_jobs.model.identity import JobAddress
from trellis_jobs.model.json_values import Json
from trellis_jobs.model.states import JobState
from trellis_jobs.model.values import replace

JOBS = 60


def story(number: int) -> list[e.Event]:
    """One in three is pending, one completed, one dead; each has its own second."""
    at = after(number)
    zip_code: Json = "12345" if number % 2 else 12345
    twice: dict[str, Json] = {"a.b": 1, "a": {"b": "1"}} if number == 7 else {}
    payload = {"customer": number % 4, "of": {"page": number}, "zip": zip_code, **twice}
    begun = replace(
        created(payload=payload, at=at),
        concurrency=Concurrency(key=f"acme:{number % 6}", key_hash="0" * 64),
        context=JobContext(f"req-{number % 8}", f"00-{number % 9 + 1:032x}-{1:016x}-01"),
        schedule=None if number % 10 else "nightly",
    )
    why = error(message=f"Upstream {number % 7} is DOWN")
    ends: list[list[e.Event]] = [
        [],
        [started(at=at, app_version=f"v{number % 4}"), completed(at=after(number + 100))],
        [dead(error=why, at=at, attempt=None)],
    ]
    return [begun, *ends[number % 3]]


def address(number: int) -> JobAddress:
    return JobAddress(f"s{number % 2}", f"t{number % 5}", f"job-{number:03}")


@pytest.fixture
async def path(tmp_path: Path) -> Path:
    made, scribe = tmp_path / "jobs.sqlite", Scribe()
    for number in range(JOBS):
        scribe.write(*of(address(number), *story(number)))
    async with Projection.open(made) as projection:
        await Ingest(projection, LogPosition()).apply(scribe.messages)
    return made


@pytest.fixture
async def readers(path: Path) -> AsyncIterator[Readers]:
    async with Readers.open(path) as opened:
        yield opened


async def found(readers: Readers, wanted: JobFilter, **page: int) -> list[int]:
    offset, limit = page.get("offset", 0), page.get("limit", 500)
    got = await reads.page(readers, wanted, offset=offset, limit=limit)
    return [int(orjson.loads(each)["id"].removeprefix("job-")) for each in got.documents]


FILTERS: dict[str, tuple[JobFilter, Any]] = {
    "all": (JobFilter(), lambda n: True),
    "a state": (JobFilter(state=[JobState.DEAD]), lambda n: n % 3 == 2),
    "states, one twice": (
        JobFilter(state=[JobState.DEAD, JobState.PENDING, JobState.DEAD]),
        lambda n: n % 3 != 1,
    ),
    "no states": (JobFilter(state=[]), lambda n: False),
    "a service": (JobFilter(service="s1"), lambda n: n % 2 == 1),
    "a type": (JobFilter(type="t2"), lambda n: n % 5 == 2),
    "service, type and state": (
        JobFilter(service="s1", type="t2", state=[JobState.COMPLETED]),
        lambda n: n % 2 == 1 and n % 5 == 2 and n % 3 == 1,
    ),
    "since": (JobFilter(since=after(110)), lambda n: n % 3 == 1 and n >= 10),
    "until": (JobFilter(until=after(50)), lambda n: n % 3 != 1 and n < 50),
    "since, and a service": (
        JobFilter(since=after(110), service="s0"),
        lambda n: n % 3 == 1 and n >= 10 and n % 2 == 0,
    ),
    "a key": (JobFilter(key="acme:4"), lambda n: n % 6 == 4),
    "a key and a state": (
        JobFilter(key="acme:4", state=[JobState.COMPLETED]),
        lambda n: n % 6 == 4 and n % 3 == 1,
    ),
    "a prefix": (JobFilter(id_prefix="job-02"), lambda n: 20 <= n < 30),
    "a wide prefix": (JobFilter(id_prefix="job-"), lambda n: True),
    "a whole id": (JobFilter(id_prefix="job-042"), lambda n: n == 42),
    "an error": (JobFilter(error="upstream 3 IS down"), lambda n: n % 3 == 2 and n % 7 == 3),
    "an error with signs": (JobFilter(error="%' OR 1=1 --"), lambda n: False),
    "a version": (JobFilter(app_version="v1"), lambda n: n % 3 == 1 and n % 4 == 1),
    "a version, a state and a time": (
        JobFilter(app_version="v1", state=[JobState.COMPLETED], since=after(110)),
        lambda n: n % 3 == 1 and n % 4 == 1 and n >= 10,
    ),
    "a request": (JobFilter(request_id="req-3"), lambda n: n % 8 == 3),
    "a trace": (JobFilter(trace_id=f"{5:032x}"), lambda n: n % 9 == 4),
    "a schedule": (JobFilter(schedule="nightly"), lambda n: n % 10 == 0),
    "a request and a value": (
        JobFilter(request_id="req-3", payload={"customer": 3}, state=[JobState.DEAD]),
        lambda n: n % 8 == 3 and n % 3 == 2,
    ),
    "named jobs": (
        JobFilter(jobs=["s0/t2/job-012", "s1/t2/job-007", "s1/t2/job-012"]),
        lambda n: n in (7, 12),
    ),
    "named jobs in a state": (
        JobFilter(jobs=["s0/t2/job-012", "s1/t0/job-005"], state=[JobState.DEAD]),
        lambda n: n == 5,
    ),
    "a value": (JobFilter(payload={"customer": 3}), lambda n: n % 4 == 3),
    "two values": (JobFilter(payload={"customer": 3, "of.page": 7}), lambda n: n == 7),
    "a number that may be text": (JobFilter(payload={"zip": 12345}), lambda n: True),
    "text only": (JobFilter(payload={"zip": "12345"}), lambda n: n % 2 == 1),
    "a number and text at one place": (JobFilter(payload={"a.b": 1}), lambda n: n == 7),
    "everything at once": (
        JobFilter(
            service="s1", type="t4", state=[JobState.DEAD], since=after(0), until=after(500),
            key="acme:5", id_prefix="job-", error="down", payload={"customer": 1},
        ),
        lambda n: n % 2 == 1 and n % 5 == 4 and n % 3 == 2 and n % 6 == 5 and n % 4 == 1,
    ),
}  # fmt: skip
each_filter = pytest.mark.parametrize("name", FILTERS)


@each_filter
async def test_a_filter_finds_its_jobs_newest_first(readers: Readers, name: str) -> None:
    wanted, is_wanted = FILTERS[name]
    expected = [number for number in reversed(range(JOBS)) if is_wanted(number)]
    assert await found(readers, wanted) == expected
    page = await reads.page(readers, wanted, offset=0, limit=1)
    assert page.count == len(expected)


@each_filter
async def test_pages_follow_each_other_without_gap_or_repeat(readers: Readers, name: str) -> None:
    wanted, is_wanted = FILTERS[name]
    pages = [await found(readers, wanted, offset=n, limit=7) for n in range(0, JOBS + 7, 7)]
    assert [number for page in pages for number in page] == [
        number for number in reversed(range(JOBS)) if is_wanted(number)
    ]


@each_filter
async def test_pages_follow_each_other_by_the_place_of_the_last_job(
    readers: Readers, name: str
) -> None:
    wanted, is_wanted = FILTERS[name]
    told: list[int] = []
    before: JobCursor | None = None
    for _ in range(JOBS):
        page = await reads.page(readers, wanted, offset=0, limit=7, before=before)
        told += [int(orjson.loads(each)["id"].removeprefix("job-")) for each in page.documents]
        if page.is_last:
            break
        before = page.cursors[-1]
    assert told == [number for number in reversed(range(JOBS)) if is_wanted(number)]


async def test_jobs_of_the_same_moment_are_told_apart_by_their_number(tmp_path: Path) -> None:
    scribe = Scribe()
    for number in range(9):
        scribe.write(*of(address(number), created(at=after(number // 4))))
    async with Projection.open(tmp_path / "jobs.sqlite") as projection:
        await Ingest(projection, LogPosition()).apply(scribe.messages)
    told: list[int] = []
    async with Readers.open(tmp_path / "jobs.sqlite") as opened:
        page = await reads.page(opened, JobFilter(), offset=0, limit=2)
        while True:
            told += [place.first_seq for place in page.cursors]
            if page.is_last:
                break
            page = await reads.page(opened, JobFilter(), offset=0, limit=2, before=page.cursors[-1])
    assert told == [*range(9, 0, -1)]


@each_filter
async def test_both_ways_to_the_jobs_of_a_filter_lead_to_the_same(path: Path, name: str) -> None:
    wanted, is_wanted = FILTERS[name]
    with closing(sqlite3.connect(path)) as database:
        for route in [by_age(wanted), *([] if wanted.is_counted else [narrowest(wanted)])]:
            query = f"SELECT j.id FROM {route.source}{route.conditions.where}"  # noqa: S608
            ids = [job_id for (job_id,) in database.execute(query, route.conditions.values)]
            assert sorted(ids) == [f"job-{n:03}" for n in range(JOBS) if is_wanted(n)]


@each_filter
async def test_no_filter_looks_through_the_whole_table(path: Path, name: str) -> None:
    """An index is searched, or followed in the order of the list; nothing else is sorted."""
    wanted, _ = FILTERS[name]
    if wanted.is_counted:
        return
    route = narrowest(wanted)
    query = f"SELECT count(*) FROM {route.source}{route.conditions.where}"  # noqa: S608
    with closing(sqlite3.connect(path)) as database:
        explained = database.execute(f"EXPLAIN QUERY PLAN {query}", route.conditions.values)
        plan = [row[3] for row in explained]
    assert plan[0].startswith("SEARCH") or "jobs_by_error" in plan[0], plan


@pytest.mark.parametrize(
    "wanted",
    [
        JobFilter(),
        JobFilter(state=[JobState.DEAD, JobState.PENDING]),
        JobFilter(service="s1"),
        JobFilter(type="t2", state=[JobState.DEAD]),
        JobFilter(service="s1", type="t2"),
    ],
)
@pytest.mark.parametrize("before", [None, JobCursor(created_at=after(30), first_seq=60)])
async def test_lists_by_service_type_and_state_are_never_sorted(
    readers: Readers, wanted: JobFilter, before: JobCursor | None
) -> None:
    async with readers.snapshot() as database:
        query, values = await reads.page_query(database, wanted, found=60, reach=50, before=before)
        plan = await database.execute_fetchall(f"EXPLAIN QUERY PLAN {query}", (*values, 50, 0))
        inner = [row[3] for row in plan]
    assert all("INDEX" in step for step in inner if step.startswith(("SCAN j", "SEARCH j ")))
    # The page itself, of at most some hundred jobs, is put in order again.
    assert sum("TEMP B-TREE" in step for step in inner) <= 1, inner


async def test_filters_go_together_in_every_way(readers: Readers) -> None:
    choices: dict[str, tuple[Any, ...]] = {
        "service": (None, "s1"),
        "type": (None, "t1"),
        "state": (None, [], [JobState.DEAD], list(JobState)),
        "since": (None, after(3)),
        "until": (None, after(300)),
        "key": (None, "acme:5"),
        "id_prefix": (None, "job-0", "job-0123456789"),
        "error": (None, "down"),
        "app_version": (None, "v1"),
        "request_id": (None, "req-3"),
        "payload": (None, {}, {"customer": 1}),
    }
    for values in product(*choices.values()):
        wanted = JobFilter(**dict(zip(choices, values, strict=True)))
        page = await reads.page(readers, wanted, offset=0, limit=JOBS)
        assert page.count == len(page.documents)


async def project(path: Path, scribe: Scribe) -> None:
    async with Projection.open(path) as projection:
        await Ingest(projection, LogPosition()).apply(scribe.messages)


SPREAD = [after(60 * minutes) for minutes in (-600_000_000, -17, -10, 0, 1, 9, 10, 11, 20, 31, 95)]


async def test_ranges_of_any_width_are_counted_to_the_job(tmp_path: Path) -> None:
    """Whole slots of time are counted beforehand: here some ranges end within one."""
    scribe = Scribe()
    for number, at in enumerate(SPREAD):
        scribe.write(*of(address(number), created(at=at)))
    await project(tmp_path / "jobs.sqlite", scribe)
    bounds = [None, *SPREAD, *(at + timedelta(seconds=1) for at in SPREAD)]
    async with Readers.open(tmp_path / "jobs.sqlite") as opened:
        for since, until, service in product(bounds, bounds, (None, "s1")):
            expected = [
                number
                for number, at in enumerate(SPREAD)
                if (since is None or at >= since)
                and (until is None or at < until)
                and (service is None or address(number).service == service)
            ]
            wanted = JobFilter(since=since, until=until, service=service)
            page = await reads.page(opened, wanted, offset=0, limit=50)
            assert (page.count, len(page.documents)) == (len(expected), len(expected)), wanted


async def test_a_job_has_not_changed_before_it_was_created(tmp_path: Path) -> None:
    """Its worker's clock is an hour behind."""
    story = [created(at=after(3600)), started(at=after(0)), completed(at=after(1))]
    await project(tmp_path / "jobs.sqlite", Scribe().write(*of(address(1), *story)))
    async with Readers.open(tmp_path / "jobs.sqlite") as opened:
        assert await found(opened, JobFilter(since=after(3600))) == [1]
        assert await found(opened, JobFilter(until=after(3600))) == []


async def test_as_many_different_errors_as_there_are_jobs(tmp_path: Path) -> None:
    scribe = Scribe()
    for number in range(300):
        why = error(message=f"Größe {number} von S{number % 3} fehlt")
        begun = created(at=after(number))
        scribe.write(*of(address(number), begun, dead(error=why, at=after(number), attempt=None)))
    await project(tmp_path / "jobs.sqlite", scribe)
    all_of_them = [*range(299, -1, -1)]
    async with Readers.open(tmp_path / "jobs.sqlite") as opened:
        assert await found(opened, JobFilter(error="GRÖSSE")) == all_of_them
        assert await found(opened, JobFilter(error="größe 77 VON")) == [77]
        third = [number for number in all_of_them if number % 3 == 2]
        assert await found(opened, JobFilter(error="von s2")) == third
        late = [number for number in third if number >= 100]
        assert await found(opened, JobFilter(error="von s2", since=after(100))) == late
        assert await found(opened, JobFilter(error="von s2", state=[JobState.FAILED])) == []
        page = await reads.page(opened, JobFilter(error="von s2"), offset=90, limit=20)
        assert (page.count, len(page.documents)) == (100, 10)


async def test_errors_are_looked_up_by_their_texts(path: Path) -> None:
    route = narrowest(JobFilter(error="upstream", since=after(0), service="s1"))
    query = f"SELECT count(*) FROM {route.source}{route.conditions.where}"  # noqa: S608
    with closing(sqlite3.connect(path)) as database:
        plan = database.execute(f"EXPLAIN QUERY PLAN {query}", route.conditions.values)
        steps = [step for *_, step in plan]
    assert "COVERING INDEX jobs_by_error (error=?" in steps[0], steps
    assert any("SEARCH error_counts" in step for step in steps), steps
