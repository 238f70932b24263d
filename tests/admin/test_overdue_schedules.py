"""Schedules whose alarms were lost are fired all the same, once, and nothing piles up."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

import pytest

from jobs_admin.api.client import AdminClient
from jobs_admin.maintenance import overdue_alarms
from jobs_admin.maintenance.maintenance import OVERDUE_ALARMS
from jobs_admin.maintenance.overdue_alarms import OverdueAlarms, page_after
from jobs_admin.schedules.registry import ScheduleRegistry
from tests.admin.schedule_lab import ACME, PULSE, SERVICE, office, records_of, staffed
from tests.admin.test_overdue_alarms import SOON, repairing
from tests.admin.upkeep_lab import purge, until_swept
from tests.support.example_service import Task
from tests.support.facts import until
from tests.support.lab import Probe, probe
from trellis_jobs import Every
from trellis_jobs.embedded import EmbeddedServer
from trellis_jobs.environment import monotonic, utc_now
from trellis_jobs.jetstream.alarms.alarms import Alarms
from trellis_jobs.jetstream.client import api
from trellis_jobs.jetstream.client.server_clock import ServerClock
from trellis_jobs.jetstream.control.record_feed import ReadingBegins
from trellis_jobs.jetstream.schedules.records import StoredSchedule
from trellis_jobs.jetstream.schedules.schedule_feed import ScheduleChange
from trellis_jobs.model.json_values import Json
from trellis_jobs.model.schedules.address import ScheduleAddress, tick_job_id
from trellis_jobs.model.schedules.changes import Author, create, trigger
from trellis_jobs.model.schedules.definition import IntervalTiming, ScheduleDefinition
from trellis_jobs.model.schedules.record import Decision, Origin, Pause, ScheduleRecord
from trellis_jobs.model.values import replace

STREAM: Final = f"JOBS_ALARMS_{SERVICE}"
HOUR: Final = timedelta(hours=1)
PAYLOAD: Final[Json] = {"text": "acme"}


def due_record(address: ScheduleAddress, tick: datetime) -> ScheduleRecord:
    """A schedule whose only tick is this one, which no process has fired."""
    definition = ScheduleDefinition(
        timing=IntervalTiming(HOUR), payload=PAYLOAD, start=tick, end=tick
    )
    author, before = Author(Origin.RUNTIME, "ann"), tick - HOUR
    return create(address, definition, author=author, now=before).record


async def write(raw: Probe, record: ScheduleRecord) -> None:
    """Without an alarm."""
    assert isinstance(await records_of(raw).write(record, 0), int)


async def alarms_in(raw: Probe) -> Counter[str]:
    """How many alarms have come, by the names of their schedules."""
    info = await api.request(raw.connection, f"STREAM.INFO.{STREAM}", {"subjects_filter": ">"})
    found: Counter[str] = Counter()
    for subject, count in (info["state"].get("subjects") or {}).items():
        if subject.startswith("trellis.due."):
            found[subject.split(".")[-1]] += count
    return found


async def test_schedules_whose_alarms_an_operator_purged_create_their_job_once(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    async with staffed(server.url, tmp_path, overdue_grace=SOON) as there:
        tick = datetime.now(UTC).replace(microsecond=0) + timedelta(seconds=2)
        await there.jobs.report.schedules.put(
            "acme", Every(HOUR, payload=Task(text="acme"), start=tick, end=tick)
        )
        await purge(there.raw, STREAM)
        job_id = tick_job_id(ACME, tick)
        await until(lambda: job_id in there.worker.begun, "its job runs")
        await until_swept(there.daemon, OVERDUE_ALARMS, times=3)
        assert Counter(there.worker.begun)[job_id] == 1
        assert not await alarms_in(there.raw)


async def test_jobs_that_a_process_decided_and_did_not_create_are_created(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    """A process wrote that a job is triggered, and its alarm was lost."""
    async with staffed(server.url, tmp_path, overdue_grace=SOON) as there:
        stored = await there.records.find(PULSE)
        assert stored.record is not None
        job_id = there.worker.service._runtime.environment.new_id()
        decided = trigger(stored.record, job_id, by="ann", now=utc_now())
        assert isinstance(decided, Decision)
        await there.records.write(decided.record, stored.revision)
        await until(lambda: job_id in there.worker.begun, "its job runs")


async def test_with_no_worker_up_one_alarm_waits_for_each_schedule(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    async with office(server.url):
        pass
    names = [f"customer-{number}" for number in range(40)]
    async with (
        probe(server.url) as raw,
        repairing(server.url, tmp_path / "one.sqlite") as one,
        repairing(server.url, tmp_path / "two.sqlite") as two,
    ):
        tick = utc_now().replace(microsecond=0) - timedelta(seconds=1)
        for name in names:
            await write(raw, due_record(ScheduleAddress(SERVICE, "report", name), tick))

        async def all_have_come() -> bool:
            return set(await alarms_in(raw)) == set(names)

        await until(all_have_come, "the alarms wait for a worker")
        async with AdminClient.connect(server.url) as admin:
            listed = [each async for each in admin.schedules.all()]
            assert {each.name for each in listed if each.overdue} == set(names)
            alarms = [each for each in (await admin.doctor()).sections if each.name == "alarms"]
            said = " ".join(finding.message for finding in alarms[0].findings)
            assert "40 alarms wait, and no worker of the service is up" in said
            assert "and 37 more are overdue" in said
        await asyncio.gather(*(until_swept(each, OVERDUE_ALARMS, times=3) for each in (one, two)))
        assert await alarms_in(raw) == Counter(names)
        wanted = {tick_job_id(ScheduleAddress(SERVICE, "report", name), tick) for name in names}
        async with office(server.url) as worker:
            await until(lambda: wanted <= set(worker.begun), "each job runs")
            assert all(Counter(worker.begun)[each] == 1 for each in wanted)


async def test_a_schedule_is_left_to_its_alarm_before_it_is_overdue(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    async with office(server.url):
        pass
    async with (
        probe(server.url) as raw,
        repairing(server.url, tmp_path / "jobs.sqlite", overdue_grace=HOUR) as daemon,
    ):
        await write(raw, due_record(ACME, utc_now().replace(microsecond=0) - 2 * HOUR))
        await until_swept(daemon, OVERDUE_ALARMS, times=3)
        assert not await alarms_in(raw), "it was written a moment ago"


async def test_a_missing_stream_keeps_no_other_service_from_being_repaired(
    server: EmbeddedServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, logger=overdue_alarms.__name__)
    async with staffed(server.url, tmp_path, overdue_grace=SOON) as there:
        tick = utc_now().replace(microsecond=0) - timedelta(seconds=5)
        attic = ScheduleAddress("attic", "sweep", "daily")
        await write(there.raw, due_record(attic, tick))
        await write(there.raw, due_record(ACME, tick))
        job_id = tick_job_id(ACME, tick)
        await until(lambda: job_id in there.worker.begun, "its job runs")
        said = [each.getMessage() for each in caplog.records if "attic" in each.getMessage()]
        assert "schedules of service attic are overdue" in said[0]
        assert "infra apply MODULE:SERVICE" in said[0]


async def test_a_sweep_is_bounded_and_the_next_one_continues(
    server: EmbeddedServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(overdue_alarms, "PAGE_SIZE", 10)
    monkeypatch.setattr(overdue_alarms, "_MAX_PAGES", 2)
    async with office(server.url):
        pass
    later = {"overdue_grace": HOUR, "janitor_interval": HOUR}
    async with (
        probe(server.url) as raw,
        repairing(server.url, tmp_path / "jobs.sqlite", **later) as daemon,
    ):
        clock = ServerClock(raw.connection, monotonic)
        await clock.now()
        registry = known(
            due_record(ScheduleAddress(SERVICE, "report", f"n-{number}"), utc_now() - HOUR)
            for number in range(45)
        )
        sweeper = OverdueAlarms(
            readers=daemon.readers,
            schedules=registry,
            alarms=Alarms(raw.connection, raw.features, clock.last_known),
            clock=clock,
            grace=timedelta(0),
            is_caught_up=daemon.progress.is_caught_up,
            report_progress=lambda: None,
        )
        for published in (20, 40, 45, 45, 45):
            await sweeper.sweep()
            assert len(await alarms_in(raw)) == published


def known(records: Iterable[ScheduleRecord]) -> ScheduleRegistry:
    registry, stored_at = ScheduleRegistry(monotonic), utc_now() - HOUR
    registry.apply(ReadingBegins(is_complete=True))
    for number, record in enumerate(records, 1):
        stored = StoredSchedule(record, number, stored_at=stored_at)
        registry.apply(ScheduleChange(record.address, stored))
    registry.apply(None)
    return registry


def test_pages_follow_each_other_and_begin_again() -> None:
    addresses = [ScheduleAddress("a", "b", f"n-{number}") for number in range(5)]
    assert page_after(addresses, None, 2) == addresses[:2]
    assert page_after(addresses, addresses[1], 2) == addresses[2:4]
    assert page_after(addresses, addresses[3], 2) == addresses[4:]
    assert page_after(addresses, addresses[4], 2) == addresses[:2]
    assert page_after([], addresses[4], 2) == []


async def test_paused_and_ended_schedules_are_never_overdue() -> None:
    day = utc_now() - timedelta(days=1)
    due = due_record(ACME, day)
    assert await known([due]).overdue(utc_now()) == [ACME]
    for other in (
        replace(due, decided_until=day),
        replace(due, paused=Pause(since=day)),
        replace(due, paused=Pause(since=day, until=utc_now() + HOUR)),
    ):
        assert await known([other]).overdue(utc_now()) == []
