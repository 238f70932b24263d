"""Records that are no records, that are huge, or that a later version wrote."""

from __future__ import annotations

import json
from collections.abc import Iterator

import orjson
import pytest

from tests.schedules.lab import (
    MINUTE,
    SECOND,
    TASK,
    Clockwork,
    assert_one_job_per_tick,
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
from trellis_jobs.model.schedules.record import ScheduleRecord
from trellis_jobs.model.values import replace
from trellis_jobs.wire import schedules as wire

GARBAGE = [b"\x00\xff", b"[]", b"null", b'{"service": "clock"}', b"{" * 5000, b"x" * 900_000]

SMALL_MESSAGE = 65_536


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


async def test_a_payload_of_more_than_half_a_message_is_refused_when_the_schedule_is_made(
    server: EmbeddedServer,
) -> None:
    """The record also has the jobs of a decision, triggered jobs and the last runs."""
    async with clock_producer(server.url, clock()) as jobs, clockwork(server.url) as found:
        for size in (530_000, 1_100_000):
            with pytest.raises(ScheduleRefused, match=r"half of the server's max_payload"):
                await jobs.tick.schedules.put("huge", Every(1, payload=Task(text="x" * size)))
        assert (await found.stored("huge")).record is None


async def test_a_huge_payload_that_fits_is_fired(server: EmbeddedServer) -> None:
    async with clock_worker(server.url, clock()) as bench, clockwork(server.url) as found:
        large = Task(text="x" * 500_000)
        await bench.jobs.tick.schedules.put("huge", Every(1, payload=large))
        await found.until_record("huge", lambda record: record.runs and not record.unfinished)
        assert [job.payload for job in await found.jobs()][:1] == [large.model_dump(mode="json")]


@pytest.fixture
def small_server() -> Iterator[EmbeddedServer]:
    with EmbeddedServer.start(config=f"max_payload: {SMALL_MESSAGE}") as server:
        yield server


async def test_missed_ticks_that_fit_into_no_record_are_caught_up_in_part(
    small_server: EmbeddedServer, caplog: pytest.LogCaptureFixture
) -> None:
    """A thousand jobs have 67 bytes each in the record, beside a payload of half a message."""
    every = Every(1, payload=Task(text="x" * 32_000), catch_up="all", max_catch_up=1000)
    async with clockwork(small_server.url) as found:
        async with clock_producer(small_server.url, clock()) as jobs:
            await jobs.tick.schedules.put("huge", every)
        stored = await found.stored("huge")
        assert stored.record is not None
        missed_since = stored.record.decided_until - 20 * MINUTE
        left = replace(stored.record, decided_until=missed_since)
        assert isinstance(await found.records.write(left, stored.revision), int)
        async with clock_worker(small_server.url, clock(concurrency=50)) as bench:
            await found.ring("huge")
            await found.until_record("huge", lambda record: record.runs and not record.unfinished)
            await bench.jobs.tick.schedules.delete("huge")
        ticks = await found.ticks("huge")
    assert_one_job_per_tick(ticks)
    assert 250 <= len(ticks) < 500
    assert "schedule clock/tick/huge: its record with 1000 new jobs" in caplog.text


@pytest.mark.parametrize("slack", [0, 190])
async def test_a_record_without_room_for_one_job_does_not_stop_its_schedule(
    small_server: EmbeddedServer, slack: int
) -> None:
    """As older versions accepted it. With some room, the record says why there is no job."""
    async with clockwork(small_server.url) as found:
        async with clock_producer(small_server.url, clock()) as jobs:
            await jobs.tick.schedules.put("huge", Every(1, payload=TASK))
        made = await found.record("huge")
        await _fill(found, made, slack)
        async with clock_worker(small_server.url, clock()):
            await found.ring("huge")
            later = made.decided_until + 4 * SECOND
            record = await found.until_record("huge", lambda record: record.decided_until > later)
        assert await found.jobs() == []
    assert record.unfinished == ()
    reasons = [run.refused for run in record.runs]
    assert reasons == (["the schedule's record would exceed max_payload"] if slack else [])


async def _fill(found: Clockwork, record: ScheduleRecord, slack: int) -> None:
    """Write the record with the largest payload for which that is possible, less the slack."""
    revision, size = (await found.stored("huge")).revision, SMALL_MESSAGE
    while True:
        payload = Task(text="x" * size).model_dump(mode="json")
        large = replace(record, definition=replace(record.definition, payload=payload))
        try:
            written = await found.records.write(large, revision)
        except PayloadTooLarge as error:
            size -= max(1, error.size - error.limit)
            continue
        assert isinstance(written, int)
        if not slack:
            return
        revision, size, slack = written, size - slack, 0
