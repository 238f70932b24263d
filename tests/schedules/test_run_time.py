"""Schedules that code makes at run time: put, get, list, pause, resume, trigger, delete."""

from __future__ import annotations

import asyncio
from collections import Counter
from datetime import UTC, timedelta

import pytest

from tests.schedules.lab import (
    MINUTE,
    SECOND,
    TASK,
    assert_one_job_per_tick,
    clock,
    clock_producer,
    clock_worker,
    clockwork,
)
from tests.support.facts import until
from trellis_jobs import Cron, Every
from trellis_jobs.embedded import EmbeddedServer
from trellis_jobs.environment import utc_now
from trellis_jobs.errors import DeclarationError, ScheduleDeclared, ScheduleNotFound
from trellis_jobs.model.schedules.changes import trigger
from trellis_jobs.model.schedules.firing import fire_time
from trellis_jobs.model.schedules.record import Decision
from trellis_jobs.model.values import replace

HOUR = timedelta(hours=1)
MANY = 300


async def test_a_schedule_is_made_seen_changed_and_deleted(server: EmbeddedServer) -> None:
    async with clock_producer(server.url, clock()) as jobs, clockwork(server.url) as found:
        schedules = jobs.tick.schedules
        made = await schedules.put("acme", Cron("0 9 * * *", tz="Europe/Berlin", payload=TASK))
        assert (made.name, made.is_declared, made.runs) == ("acme", False, ())
        assert (await schedules.get("acme")).record == made.record
        revision = (await found.stored("acme")).revision
        await schedules.put("acme", Cron("0  9 * * *", tz="Europe/Berlin", payload=TASK))
        assert (await found.stored("acme")).revision == revision
        await schedules.put("zoo", Every(60, payload=TASK))
        changed = await schedules.put("acme", Every(3600, payload=TASK))
        assert changed.next_at == changed.next_ticks(1)[0]
        assert [each.name for each in await schedules.list()] == ["acme", "zoo"]
        assert await jobs.other.schedules.list() == []
        await schedules.delete("acme")
        with pytest.raises(ScheduleNotFound, match="acme"):
            await schedules.get("acme")
        with pytest.raises(ScheduleNotFound, match="acme"):
            await schedules.delete("acme")
        await schedules.put("acme", Every(60, payload=TASK))
        assert [each.name for each in await schedules.list()] == ["acme", "zoo"]


async def test_jitter_longer_than_the_time_between_ticks_is_refused(
    server: EmbeddedServer,
) -> None:
    async with clock_producer(server.url, clock()) as jobs:
        often = Cron("*/5 * * * *", payload=TASK, jitter=3600)
        with pytest.raises(DeclarationError, match=r"jitter \(1 h\).*5 min"):
            await jobs.tick.schedules.put("often", often)
        assert await jobs.tick.schedules.list() == []


async def test_a_paused_schedule_says_when_its_next_job_comes(server: EmbeddedServer) -> None:
    async with clock_producer(server.url, clock()) as jobs, clockwork(server.url) as found:
        schedules = jobs.tick.schedules
        await schedules.put("pulse", Every(60, payload=TASK))
        end = utc_now() + 3 * HOUR
        paused = await schedules.pause("pulse", until=end)
        [following] = paused.next_ticks(1)
        assert paused.next_at == following
        assert end < following <= end + MINUTE
        stored = await found.stored("pulse")
        assert stored.record is not None
        left = replace(stored.record, decided_until=stored.record.decided_until - HOUR)
        await found.records.write(left, stored.revision)
        for_good = await schedules.pause("pulse")
        assert for_good.next_at is None
        assert for_good.read_at < for_good.next_ticks(1)[0] <= for_good.read_at + MINUTE


async def test_a_declared_schedule_is_changed_by_its_contract_only(server: EmbeddedServer) -> None:
    jobs = clock({"nightly": Cron("@daily", payload=TASK)})
    async with clock_worker(server.url, jobs) as bench, clockwork(server.url) as found:
        schedules = bench.jobs.tick.schedules
        await found.until_record("nightly", lambda record: record.origin == "contract")
        with pytest.raises(ScheduleDeclared):
            await schedules.put("nightly", Every(60, payload=TASK))
        with pytest.raises(ScheduleDeclared):
            await schedules.delete("nightly")
        paused = await schedules.pause("nightly", reason="holidays")
        assert paused.paused is not None
        assert paused.paused.reason == "holidays"


async def test_hundreds_of_schedules_with_the_same_tick_make_one_job_each(
    server: EmbeddedServer,
) -> None:
    jobs = clock(concurrency=50)
    names = [f"tenant-{number}" for number in range(MANY)]
    async with (
        clock_worker(server.url, jobs),
        clock_worker(server.url, jobs) as bench,
        clockwork(server.url) as found,
    ):
        tick = utc_now().replace(microsecond=0) + 6 * SECOND
        only = Every(1, payload=TASK, start=tick, end=tick)
        puts = (bench.jobs.tick.schedules.put(name, only) for name in names)
        made = await asyncio.gather(*puts)
        # On a machine that is very busy, some are made after the tick.
        in_time = [each.name for each in made if each.record.created_at < tick]

        async def all_there() -> bool:
            return len(await found.jobs()) >= len(in_time)

        await until(all_there, "each schedule has its job", deadline=40)
        listed = await bench.jobs.tick.schedules.list()
        assert {run.tick for each in listed for run in each.runs} == {tick}
        assert [each.next_at for each in listed] == [None] * MANY
        assert Counter(job.schedule for job in await found.jobs()) == Counter(in_time)


async def test_a_triggered_job_runs_now_also_while_the_schedule_is_paused(
    server: EmbeddedServer,
) -> None:
    async with clock_worker(server.url, clock()) as bench, clockwork(server.url) as found:
        schedules = bench.jobs.tick.schedules
        await schedules.put("nightly", Cron("@daily", payload=TASK))
        await schedules.pause("nightly")
        ref = await schedules.trigger("nightly")
        assert (await ref.wait(timeout=20)).text == "tick"
        record = await found.until_record("nightly", lambda record: not record.unfinished)
        assert [(run.job_id, run.triggered) for run in record.runs] == [(ref.id, True)]
        assert record.paused is not None
        with pytest.raises(ScheduleNotFound):
            await schedules.trigger("weekly")


async def test_a_worker_creates_the_job_of_a_trigger_whose_process_died(
    server: EmbeddedServer,
) -> None:
    """The record has the job, and the process that was to create it is gone."""
    async with clock_producer(server.url, clock()) as jobs, clockwork(server.url) as found:
        await jobs.tick.schedules.put("nightly", Cron("@daily", payload=TASK))
        record = await found.record("nightly")
        decision = trigger(record, "died-before-created", by="ann", now=utc_now())
        assert isinstance(decision, Decision)
        revision = (await found.stored("nightly")).revision
        await found.records.write(decision.record, revision)
        await found.ring("nightly")
        async with clock_worker(server.url, clock()):
            await found.until_record("nightly", lambda record: not record.unfinished)
        assert [job.job.job_id for job in await found.jobs()] == ["died-before-created"]


async def test_a_paused_schedule_fires_nothing_until_its_pause_ends(
    server: EmbeddedServer,
) -> None:
    """It is another schedule's ticks that show how much time has passed."""
    async with clock_worker(server.url, clock()) as bench, clockwork(server.url) as found:
        schedules = bench.jobs.tick.schedules
        for name in ("pulse", "other"):
            await schedules.put(name, Every(1, payload=TASK, catch_up="all"))
        await found.until_ticks("pulse", 1)
        until_ = (utc_now() + 3 * SECOND).astimezone(UTC)
        paused = await schedules.pause("pulse", until=until_)
        before = await found.ticks("pulse")
        assert paused.next_at is not None
        assert until_ <= paused.next_at <= until_ + SECOND
        await found.until_ticks("other", len(before) + 2)
        assert await found.ticks("pulse") == before
        # The ticks of the pause are caught up when it ends.
        assert_one_job_per_tick(await found.until_ticks("pulse", len(before) + 4))


async def test_there_are_no_ticks_before_the_start_and_after_the_end(
    server: EmbeddedServer,
) -> None:
    async with clock_worker(server.url, clock()) as bench, clockwork(server.url) as found:
        start = utc_now().replace(microsecond=0) + 2 * SECOND
        end = start + SECOND
        schedules = bench.jobs.tick.schedules
        await schedules.put("bounded", Every(1, payload=TASK, start=start, end=end))
        await schedules.put("pulse", Every(1, payload=TASK))

        async def is_past() -> bool:
            ticks = await found.ticks("pulse")
            return bool(ticks) and ticks[-1] > end

        await until(is_past, "another schedule has a tick after the end")
        assert await found.until_ticks("bounded", 2) == [start, end]
        record = await found.until_record("bounded", lambda record: not record.unfinished)
        assert (await schedules.get("bounded")).next_at is None
        assert record.decided_until == end


async def test_all_processes_compute_the_same_jitter(server: EmbeddedServer) -> None:
    """The time of a tick's job is a function of the record, so no process fires it earlier."""
    jitter = timedelta(seconds=0.9)
    jobs = clock({"pulse": Every(1, payload=TASK, jitter=jitter, catch_up="all")})
    async with (
        clock_worker(server.url, jobs),
        clock_worker(server.url, jobs),
        clockwork(server.url) as found,
    ):
        assert_one_job_per_tick(await found.until_ticks("pulse", 4))
        record = await found.record("pulse")
        made = [(job.at, job.run_at) for job in await found.jobs() if job.run_at is not None]
        planned = [fire_time(record.definition, record.address, tick) for _, tick in made]
        assert all(at >= due for (at, _), due in zip(made, planned, strict=True))
        assert len({due.microsecond for due in planned}) > 1
