"""Delayed jobs whose alarms were lost start all the same, once, and nothing piles up."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import pytest

from jobs_admin.daemon import Daemon
from jobs_admin.maintenance import overdue_alarms
from jobs_admin.maintenance.maintenance import OVERDUE_ALARMS
from jobs_admin.maintenance.overdue_alarms import OverdueAlarms, plan_alarms
from jobs_admin.projection.store import Projection
from jobs_admin.reads import candidates
from jobs_admin.reads.readers import Readers
from jobs_admin.schedules.registry import ScheduleRegistry
from tests.admin.upkeep_lab import (
    SERVICE,
    looking_after,
    producer,
    purge,
    until_kind,
    until_swept,
    worker,
)
from tests.given import scheduled
from tests.support.example_service import Task, TaskJobs
from tests.support.facts import until
from tests.support.lab import Probe, probe
from trellis_jobs import JobRef
from trellis_jobs.embedded import EmbeddedServer
from trellis_jobs.environment import monotonic, utc_now
from trellis_jobs.errors import StreamMissing
from trellis_jobs.jetstream.alarms.alarms import Alarms
from trellis_jobs.jetstream.client import api
from trellis_jobs.jetstream.client.server_clock import ServerClock
from trellis_jobs.model import subjects
from trellis_jobs.model.events import EventKind
from trellis_jobs.model.identity import JobAddress
from trellis_jobs.model.states import JobState

STREAM: Final = f"JOBS_ALARMS_{SERVICE}"
SOON: Final = timedelta(seconds=0.3)
LATER: Final = timedelta(hours=1)


@asynccontextmanager
async def repairing(url: str, path: Path, **changes: Any) -> AsyncIterator[Daemon]:
    """A daemon for which a job is overdue soon."""
    async with looking_after(url, path, **{"overdue_grace": SOON, **changes}) as daemon:
        yield daemon


async def lost(raw: Probe, jobs: TaskJobs, count: int, queue: str = "plain") -> list[JobRef[Any]]:
    """Delayed jobs without alarms, which are due by now."""
    due = datetime.now(UTC) + timedelta(seconds=1.5)
    refs = await getattr(jobs, queue).create_many([Task()] * count, run_at=due)
    await purge(raw, STREAM)
    await until(lambda: datetime.now(UTC) > due + SOON, "they are overdue")
    return list(refs)


async def stored(raw: Probe) -> dict[str, int]:
    """How many messages the stream of alarms has, by the first tokens of their subjects."""
    info = await api.request(raw.connection, f"STREAM.INFO.{STREAM}", {"subjects_filter": ">"})
    found: Counter[str] = Counter()
    for subject, count in (info["state"].get("subjects") or {}).items():
        found[".".join(subject.split(".")[:2])] += count
    return dict(found)


async def test_jobs_whose_alarms_an_operator_purged_run_once(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    async with (
        worker(server.url, "plain") as ward,
        probe(server.url) as raw,
        repairing(server.url, tmp_path / "jobs.sqlite"),
    ):
        refs = await lost(raw, ward.jobs, 50)
        await asyncio.gather(*(ref.wait(timeout=20) for ref in refs))
        assert Counter(ward.begun) == Counter(ref.id for ref in refs)
        assert await raw.kinds(refs[0]) == ["scheduled", "created", "started", "completed"]


async def test_with_no_worker_up_nothing_piles_up_and_each_job_runs_once_later(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    async with (
        producer(server.url) as jobs,
        probe(server.url) as raw,
        repairing(server.url, tmp_path / "one.sqlite") as one,
        repairing(server.url, tmp_path / "two.sqlite") as two,
    ):
        refs = await lost(raw, jobs, 100)

        async def are_published() -> bool:
            return (await stored(raw)).get("trellis.due") == 100

        await until(are_published, "the alarms wait for a worker")
        await asyncio.gather(*(until_swept(each, OVERDUE_ALARMS, times=3) for each in (one, two)))
        assert await stored(raw) == {"trellis.due": 100}
        async with worker(server.url, "plain") as ward:
            await asyncio.gather(*(ref.wait(timeout=20) for ref in refs))
            assert Counter(ward.begun) == Counter(ref.id for ref in refs)


async def test_a_job_is_left_to_its_own_alarm_before_it_is_overdue(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    async with (
        producer(server.url) as jobs,
        probe(server.url) as raw,
        looking_after(server.url, tmp_path / "jobs.sqlite") as daemon,
    ):
        refs = await lost(raw, jobs, 3)
        await until_swept(daemon, OVERDUE_ALARMS, times=3)
        assert await stored(raw) == {}, "30 s are not over"
        assert {(await ref.get()).state for ref in refs} == {JobState.SCHEDULED}


async def test_a_service_without_a_stream_for_alarms_keeps_no_other_from_being_repaired(
    server: EmbeddedServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, logger=overdue_alarms.__name__)
    async with (
        worker(server.url, "plain") as ward,
        probe(server.url) as raw,
        repairing(server.url, tmp_path / "jobs.sqlite") as daemon,
    ):
        await _of_another_service(raw, 3)
        refs = await lost(raw, ward.jobs, 3)
        await asyncio.gather(*(ref.wait(timeout=20) for ref in refs))
        await until_swept(daemon, OVERDUE_ALARMS)
        assert daemon.loops.all[OVERDUE_ALARMS].failures == 0
        sweeps = [each.getMessage() for each in caplog.records if "attic" in each.getMessage()]
        assert "stream JOBS_ALARMS_attic is missing: create it with the code of" in sweeps[0]
        assert "infra apply MODULE:SERVICE" in sweeps[0]


async def _of_another_service(raw: Probe, count: int) -> None:
    """Delayed jobs that were due long ago, of a service that was never set up."""
    for number in range(count):
        event = scheduled(job=JobAddress("attic", "sweep", f"job-{number}"), run_at=utc_now())
        await raw.events.try_append(None, event)


async def test_each_sweep_says_once_that_a_stream_is_missing(
    server: EmbeddedServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, logger=overdue_alarms.__name__)
    async with (
        producer(server.url),
        probe(server.url) as raw,
        looking_after(server.url, tmp_path / "jobs.sqlite", janitor_interval=LATER) as daemon,
    ):
        await _of_another_service(raw, 40)
        await until(lambda: daemon.progress.position >= 40, "the projection has them")
        sweeper = await _sweeper(raw, daemon)
        for number in (1, 2):
            await sweeper.sweep()
            assert len(caplog.records) == number


async def _sweeper(raw: Probe, daemon: Daemon, *, is_caught_up: bool = True) -> OverdueAlarms:
    clock = ServerClock(raw.connection, monotonic)
    await clock.now()

    async def caught_up() -> bool:
        return is_caught_up

    return OverdueAlarms(
        readers=daemon.readers,
        schedules=ScheduleRegistry(monotonic),
        alarms=Alarms(raw.connection, raw.features, clock.last_known),
        clock=clock,
        grace=timedelta(0),
        is_caught_up=caught_up,
        report_progress=lambda: None,
    )


async def test_a_projection_that_is_behind_repairs_nothing(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    async with (
        producer(server.url) as jobs,
        probe(server.url) as raw,
        looking_after(server.url, tmp_path / "jobs.sqlite", janitor_interval=LATER) as daemon,
    ):
        await lost(raw, jobs, 3)
        await (await _sweeper(raw, daemon, is_caught_up=False)).sweep()
        assert await stored(raw) == {}
        await (await _sweeper(raw, daemon)).sweep()
        assert await stored(raw) == {"trellis.due": 3}


async def test_a_sweep_is_bounded_and_the_next_one_continues(
    server: EmbeddedServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(overdue_alarms, "PAGE_SIZE", 10)
    monkeypatch.setattr(overdue_alarms, "_MAX_PAGES", 2)
    async with (
        producer(server.url) as jobs,
        probe(server.url) as raw,
        looking_after(server.url, tmp_path / "jobs.sqlite", janitor_interval=LATER) as daemon,
    ):
        await lost(raw, jobs, 45)
        sweeper = await _sweeper(raw, daemon)
        for published in (20, 40, 45, 45, 45):
            await sweeper.sweep()
            assert await stored(raw) == {"trellis.due": published}


async def test_a_delayed_job_past_its_deadline_expires(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    """It is due, but no worker is up to release it."""
    async with (
        producer(server.url) as jobs,
        probe(server.url) as raw,
        looking_after(server.url, tmp_path / "jobs.sqlite"),
    ):
        deadline = datetime.now(UTC) + timedelta(seconds=1)
        ref = await jobs.plain.create(Task(), delay=0.5, deadline=deadline)
        assert await until_kind(raw, ref, EventKind.EXPIRED) == ["scheduled", "expired"]


async def test_overdue_jobs_are_found_by_their_time_and_not_by_reading_all(tmp_path: Path) -> None:
    path = tmp_path / "jobs.sqlite"
    async with Projection.open(path), Readers.open(path) as readers:
        steps = await readers.rows(f"EXPLAIN QUERY PLAN {candidates.OVERDUE_DELAYS}", (0, 0, 0, 0))
        assert "jobs_by_release (next_attempt_at>? AND next_attempt_at<?)" in steps[0][-1]
        assert len(steps) == 1, "and nothing is sorted"


def test_alarms_of_services_that_cannot_be_reached_are_left_out() -> None:
    house, attic = (
        [subjects.alarm_of_job(JobAddress(service, "mow", str(n))) for n in range(2)]
        for service in ("house", "attic")
    )
    assert plan_alarms([*house, *attic], {"attic"}) == {"house": house}
    assert plan_alarms([], ()) == {}


async def test_a_missing_stream_is_noticed_before_a_requester_gives_up(
    server: EmbeddedServer,
) -> None:
    async with producer(server.url), probe(server.url) as raw:
        alarms = Alarms(raw.connection, raw.features, utc_now)
        nowhere = subjects.alarm_of_job(JobAddress("attic", "sweep", "1"))
        async with asyncio.timeout(8):
            with pytest.raises(StreamMissing, match="JOBS_ALARMS_attic is missing"):
                await alarms.set(nowhere, utc_now() + LATER)
