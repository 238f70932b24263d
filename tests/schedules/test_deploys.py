"""A contract changes: its schedules follow when a worker with the new contract starts."""

from __future__ import annotations

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
from tests.support.example_service import Report, Task, example_jobs, task_worker
from tests.support.facts import until
from trellis_jobs import Cron, Every, Service
from trellis_jobs.embedded import EmbeddedServer
from trellis_jobs.environment import utc_now
from trellis_jobs.model.schedules.record import Pause, SkipReason
from trellis_jobs.model.values import replace


async def test_a_changed_definition_takes_effect_when_a_worker_starts(
    server: EmbeddedServer,
) -> None:
    before = clock({"pulse": Cron("@yearly", payload=Task(text="old"))})
    after = clock({"pulse": Every(1, payload=Task(text="new"), catch_up="all")})
    async with clockwork(server.url) as found:
        async with clock_worker(server.url, before):
            await found.until_record("pulse", lambda _: True)
            async with clock_producer(server.url, after):
                pass
            assert (await found.record("pulse")).definition.payload == TASK_OF["old"]
            async with clock_worker(server.url, after):
                ticks = await found.until_ticks("pulse", 2)
        assert_one_job_per_tick(ticks)
        assert {str(job.payload) for job in await found.jobs()} == {str(TASK_OF["new"])}


TASK_OF = {text: Task(text=text).model_dump(mode="json") for text in ("old", "new")}


async def test_a_deploy_keeps_the_ticks_that_were_missed_before_it(server: EmbeddedServer) -> None:
    """With the same timing: a nightly job that was due during the deploy is not lost."""
    before = clock({"pulse": Every(3600, payload=Task(text="old"), start="2020-01-01T00:30Z")})
    after = clock({"pulse": Every(3600, payload=Task(text="new"), start="2020-01-01T00:30Z")})
    async with clockwork(server.url) as found:
        async with clock_worker(server.url, before):
            await found.until_record("pulse", lambda _: True)
        await found.leave_record(before, "pulse", decided_until=utc_now() - 61 * MINUTE)
        async with clock_worker(server.url, after):
            await found.until_ticks("pulse", 1)
        assert [job.payload for job in await found.jobs()] == [TASK_OF["new"]]


async def test_another_timing_has_no_jobs_for_the_ticks_of_the_old_one(
    server: EmbeddedServer,
) -> None:
    before = clock({"pulse": Every(60, payload=TASK)})
    after = clock({"pulse": Cron("@yearly", payload=TASK)})
    async with clockwork(server.url) as found:
        async with clock_worker(server.url, before):
            await found.until_record("pulse", lambda _: True)
        await found.leave_record(before, "pulse", decided_until=utc_now() - 5 * MINUTE)
        async with clock_worker(server.url, after):
            run = await found.until_run("pulse", lambda run: run.skipped is SkipReason.CHANGED)
        assert run.count >= 4
        assert await found.jobs() == []


async def test_a_schedule_that_is_not_declared_any_more_stops(server: EmbeddedServer) -> None:
    """Those made at run time stay, and so does the pause of one that is still declared."""
    before = clock({"gone": Every(1, payload=TASK), "kept": Every(60, payload=TASK)})
    after = clock({"kept": Every(90, payload=TASK)})
    async with clockwork(server.url) as found:
        async with clock_worker(server.url, before) as bench:
            await found.until_ticks("gone", 1)
            await bench.jobs.tick.schedules.put("made", Every(1, payload=TASK))
            await bench.jobs.tick.schedules.pause("kept")
        async with clock_worker(server.url, after) as bench:

            async def is_gone() -> bool:
                return (await found.stored("gone")).record is None

            await until(is_gone, "the record is removed")
            last = await found.ticks("gone")
            made = await found.ticks("made")
            await found.until_ticks("made", len(made) + 3)
            assert await found.ticks("gone") == last
            listed = await bench.jobs.tick.schedules.list()
            assert [(each.name, each.is_declared) for each in listed] == [
                ("kept", True),
                ("made", False),
            ]
            assert isinstance(listed[0].paused, Pause)
            assert (
                listed[0].definition.timing
                == after.contract.queues["tick"].schedules["kept"].timing
            )


async def test_the_alarm_of_a_queue_that_is_gone_is_dropped(server: EmbeddedServer) -> None:
    """A contract without the queue removes its schedules; their alarms find no record."""
    before = clock({"pulse": Every(2, payload=TASK)})
    after = example_jobs("clock", Task, Report, other={})
    async with clockwork(server.url) as found:
        async with clock_worker(server.url, before):
            await found.until_ticks("pulse", 1)
        made = task_worker(Service(after))
        async with made.service.connect(server.url):

            async def is_gone() -> bool:
                return (await found.stored("pulse")).record is None

            await until(is_gone, "the record is removed")
            # An alarm that was set a while ago: the record of a newer one may still come.
            await found.purge_alarms()
            await found.ring_late("pulse", 90 * SECOND)

            async def are_dropped() -> bool:
                return not await found.due_alarms()

            await until(are_dropped, "the alarm is acknowledged")


async def test_a_schedule_that_waited_for_code_with_its_queue_is_fired_when_a_worker_has_it(
    server: EmbeddedServer,
) -> None:
    """Workers without the queue had its alarm for an hour, so it comes again after minutes."""
    without = example_jobs("clock", Task, Report, other={})
    async with clockwork(server.url) as found:
        async with clock_producer(server.url, clock()) as jobs:
            await jobs.tick.schedules.put("made", Every(3600, payload=TASK))
        stored = await found.stored("made")
        assert stored.record is not None
        overdue = replace(stored.record, decided_until=utc_now() - 61 * MINUTE)
        await found.records.write(overdue, stored.revision)
        await found.purge_alarms()
        async with task_worker(Service(without)).service.connect(server.url):
            await found.ring_late("made", 60 * MINUTE)

            async def is_delivered() -> bool:
                return await found.deliveries() > 0

            await until(is_delivered, "the worker has the alarm")
        assert await found.due_alarms("made") == 1
        assert await found.ticks("made") == []
        async with clock_worker(server.url, clock()):
            await found.until_ticks("made", 1)
