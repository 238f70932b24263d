"""Records that are no records, that are huge, or that a later version wrote."""

from __future__ import annotations

import json

import orjson
import pytest

from tests.schedules.lab import (
    MINUTE,
    TASK,
    Clockwork,
    clock,
    clock_producer,
    clock_worker,
    clockwork,
)
from tests.support.example_service import Task
from tests.support.facts import until
from trellis_jobs import Every
from trellis_jobs.embedded import EmbeddedServer
from trellis_jobs.errors import PayloadTooLarge, ScheduleNotFound, ScheduleRefused
from trellis_jobs.wire import schedules as wire

GARBAGE = [b"\x00\xff", b"[]", b"null", b'{"service": "clock"}', b"{" * 5000, b"x" * 900_000]


async def test_garbage_stops_no_other_schedule(server: EmbeddedServer) -> None:
    jobs = clock({"pulse": Every(1, payload=TASK)})
    async with clockwork(server.url) as found:
        async with clock_worker(server.url, jobs):
            await found.until_ticks("pulse", 1)
        for number, data in enumerate(GARBAGE):
            await found.write_bytes(f"bad-{number}", data)
            await found.ring(f"bad-{number}")
        async with clock_worker(server.url, jobs) as bench:
            before = await found.ticks("pulse")
            await found.until_ticks("pulse", len(before) + 2)
            listed = await bench.jobs.tick.schedules.list()
            assert [each.name for each in listed] == ["pulse"]
            with pytest.raises(ScheduleNotFound):
                await bench.jobs.tick.schedules.get("bad-0")
            await bench.jobs.tick.schedules.delete("bad-0")
            with pytest.raises(ScheduleRefused, match="its record cannot be read"):
                await bench.jobs.tick.schedules.put("bad-1", Every(60, payload=TASK))
            await bench.jobs.tick.schedules.delete("bad-1")
            mended = await bench.jobs.tick.schedules.put("bad-1", Every(60, payload=TASK))
            assert (await bench.jobs.tick.schedules.get("bad-1")).record == mended.record


async def test_a_declared_schedule_whose_record_is_garbage_is_made_again_once_it_is_deleted(
    server: EmbeddedServer,
) -> None:
    jobs = clock({"other": Every(1, payload=TASK), "pulse": Every(1, payload=TASK)})
    async with clockwork(server.url) as found:
        async with clock_worker(server.url, jobs):
            before = await found.until_ticks("pulse", 1)
        await found.write_bytes("pulse", b"garbage")
        async with clock_worker(server.url, jobs) as bench:
            await found.until_ticks("other", len(await found.ticks("other")) + 2)
            assert (await found.stored("pulse")).problem is not None
            await bench.jobs.tick.schedules.delete("pulse")
        async with clock_worker(server.url, jobs):
            await found.until_ticks("pulse", len(before) + 2)


async def test_the_alarm_of_a_record_of_a_later_version_waits_for_a_process_that_knows_it(
    server: EmbeddedServer,
) -> None:
    async with clock_producer(server.url, clock()) as jobs, clockwork(server.url) as found:
        await jobs.tick.schedules.put("pulse", Every(3600, payload=TASK, catch_up="all"))
        record = await found.record("pulse")
        body = orjson.loads(wire.encode(record))
        body["definition"]["overlap"] = "a-policy-of-2030"
        await found.write_bytes("pulse", orjson.dumps(body))
        await found.purge_alarms()
        await found.ring_late("pulse", 90 * MINUTE)
        async with clock_worker(server.url, clock()):
            await until(found.deliveries, "the alarm was delivered")
        # The worker has answered by now, and an acknowledgement would have removed the alarm.
        assert await found.due_alarms("pulse") == 1
        assert (await found.stored("pulse")).problem is not None


async def until_delivered(found: Clockwork) -> None:
    async def is_delivered() -> bool:
        return bool(await found.redeliveries())

    await until(is_delivered, "the alarm was delivered, and is to be delivered again")


async def test_fields_of_a_later_version_survive(server: EmbeddedServer) -> None:
    jobs = clock()
    async with clock_producer(server.url, jobs) as producer, clockwork(server.url) as found:
        await producer.tick.schedules.put("pulse", Every(1, payload=TASK))
        body = orjson.loads(wire.encode(await found.record("pulse")))
        body |= {"colour": "red"}
        body["definition"] |= {"maxLatenessMs": 5}
        await found.write_bytes("pulse", orjson.dumps(body))
        async with clock_worker(server.url, jobs) as bench:
            await found.until_ticks("pulse", 2)
            await bench.jobs.tick.schedules.pause("pulse")
            await bench.jobs.tick.schedules.resume("pulse")
        stored = json.loads(wire.encode(await found.record("pulse")))
        assert stored["colour"] == "red"
        assert stored["definition"]["maxLatenessMs"] == 5


async def test_a_payload_that_fits_no_record_is_refused_when_the_schedule_is_made(
    server: EmbeddedServer,
) -> None:
    async with clock_producer(server.url, clock()) as jobs, clockwork(server.url) as found:
        with pytest.raises(PayloadTooLarge):
            await jobs.tick.schedules.put("huge", Every(1, payload=Task(text="x" * 1_100_000)))
        assert (await found.stored("huge")).record is None


async def test_a_huge_payload_that_fits_is_fired(server: EmbeddedServer) -> None:
    async with clock_worker(server.url, clock()) as bench, clockwork(server.url) as found:
        large = Task(text="x" * 900_000)
        await bench.jobs.tick.schedules.put("huge", Every(1, payload=large))
        await found.until_record("huge", lambda record: record.runs and not record.unfinished)
        assert [job.payload for job in await found.jobs()][:1] == [large.model_dump(mode="json")]
