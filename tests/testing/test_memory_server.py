"""The in-memory server keeps records and alarms as a real server does."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

import pytest
import pytest_asyncio

from tests.support.facts import until
from trellis_jobs.contract.topology import CONTROL, Topology, alarms_stream
from trellis_jobs.environment import Environment
from trellis_jobs.jetstream.alarms.alarms import Alarms
from trellis_jobs.jetstream.alarms.due_alarms import DueAlarm
from trellis_jobs.jetstream.client import api
from trellis_jobs.jetstream.client.connection import Connection
from trellis_jobs.jetstream.client.message import Message
from trellis_jobs.jetstream.client.pub_ack import Refused
from trellis_jobs.jetstream.client.pull_consumer import EphemeralConsumer, open_ephemeral_consumer
from trellis_jobs.jetstream.control.records import ControlRecords, Record
from trellis_jobs.jetstream.setup.features import detect_features
from trellis_jobs.jetstream.setup.provision import provision
from trellis_jobs.jetstream.work.delivery import answer_bytes
from trellis_jobs.model import subjects
from trellis_jobs.model.alarms import LEAD
from trellis_jobs.model.identity import JobAddress
from trellis_jobs.model.settlement import Ack, Answer, Nak
from trellis_jobs.model.subjects import AlarmAddress, AlarmFamily
from trellis_jobs.scheduler.alarm_handlers import AlarmHandlers, HoldAlarm
from trellis_jobs.testing import Clock
from trellis_jobs.testing.memory_alarm_worker import MemoryAlarmWorker
from trellis_jobs.testing.memory_dependencies import MemoryDependencies, memory_dependencies
from trellis_jobs.wire import headers as h

ALARM: Final = AlarmAddress("mill", AlarmFamily.SCHEDULE, "grind", "nightly")
NIGHTLY: Final = subjects.schedule("mill", "grind", "nightly")
HOUR: Final = timedelta(hours=1)


@dataclass(frozen=True)
class Kept:
    """A server's records and alarms."""

    connection: Connection
    alarms: Alarms
    records: ControlRecords

    async def alarm(self) -> str | None:
        """When the alarm that is set comes; None without one."""
        found = await api.newest(
            self.connection, alarms_stream(ALARM.service), subjects.alarm(ALARM)
        )
        return None if found.status else found.headers.get(h.SCHEDULE)

    async def is_due(self) -> bool:
        due = await api.newest(self.connection, alarms_stream(ALARM.service), subjects.due(ALARM))
        return due.status is None


@asynccontextmanager
async def really(url: str) -> AsyncIterator[Kept]:
    connection = await Connection.open(url, name="records")
    try:
        features = await detect_features(connection)
        await provision(connection, Topology(features, alarms_of=(ALARM.service,)))
        alarms = Alarms(connection, features, Environment().now)
        yield Kept(connection, alarms, ControlRecords(connection, supports_ttl=True))
    finally:
        await connection.close()


@asynccontextmanager
async def in_memory() -> AsyncIterator[Kept]:
    async with memory_dependencies(ALARM.service, Environment()) as memory:
        records = ControlRecords(memory.connection, supports_ttl=True)
        yield Kept(memory.connection, memory.alarms, records)


@pytest_asyncio.fixture(params=["a real server", "in memory"])
async def kept(request: pytest.FixtureRequest) -> AsyncIterator[Kept]:
    is_real = request.param == "a real server"
    opened = really(request.getfixturevalue("jobs_server")) if is_real else in_memory()
    async with opened as made:
        yield made


async def test_a_record_is_read_as_it_was_written(kept: Kept) -> None:
    before = datetime.now(UTC) - timedelta(seconds=5)
    assert await kept.records.read(NIGHTLY) is None
    assert await kept.records.newest(NIGHTLY) is None
    revision = await kept.records.write(Record(NIGHTLY, 0, b"one"))
    assert isinstance(revision, int)
    for found in (await kept.records.read(NIGHTLY), await kept.records.newest(NIGHTLY)):
        assert found is not None
        assert (found.subject, found.revision, found.data) == (NIGHTLY, revision, b"one")
    newest = await kept.records.newest(NIGHTLY)
    assert newest is not None
    assert newest.stored_at is not None
    assert before < newest.stored_at < before + timedelta(seconds=60)


async def test_a_record_that_another_process_wrote_is_not_overwritten(kept: Kept) -> None:
    first = await kept.records.write(Record(NIGHTLY, 0, b"one"))
    assert isinstance(first, int)
    second = await kept.records.write(Record(NIGHTLY, first, b"two"))
    assert isinstance(second, int)
    for outdated in (0, first):
        conflict = await kept.records.write(Record(NIGHTLY, outdated, b"three"))
        assert conflict == Refused(second)
    found = await kept.records.read_after(Refused(second), NIGHTLY)
    assert found is not None
    assert found.data == b"two"


async def test_records_are_listed_by_their_subjects(kept: Kept) -> None:
    names = ["nightly", "weekly"]
    for name in names:
        await kept.records.write(Record(subjects.schedule("mill", "grind", name), 0, b"{}"))
    await kept.records.write(Record(subjects.schedule("bakery", "bake", "daily"), 0, b"{}"))
    listed = await kept.records.listing(subjects.schedules_of_service("mill"))
    assert listed.subjects == [subjects.schedule("mill", "grind", name) for name in names]
    assert len(await kept.records.read_all(listed.subjects)) == 2


async def test_a_reader_of_all_records_gets_the_newest_of_each(kept: Kept) -> None:
    first = await kept.records.write(Record(NIGHTLY, 0, b"one"))
    assert isinstance(first, int)
    await kept.records.write(Record(NIGHTLY, first, b"two"))
    consumer = EphemeralConsumer(
        stream=CONTROL,
        name_prefix="records",
        subject=subjects.schedules_of_service("mill"),
        idle_timeout=HOUR,
        delete_after_use=True,
    )
    async with open_ephemeral_consumer(kept.connection, consumer) as pull:
        assert [message.data async for message, _ in pull.drain()] == [b"two"]


async def test_a_record_goes_after_its_lifetime(kept: Kept) -> None:
    assert isinstance(
        await kept.records.write(Record(NIGHTLY, 0, b"one"), ttl=timedelta(seconds=1)), int
    )

    async def is_gone() -> bool:
        return await kept.records.read(NIGHTLY) is None

    await until(is_gone)
    assert isinstance(await kept.records.write(Record(NIGHTLY, 0, b"two")), int)


async def test_an_alarm_is_replaced_by_an_earlier_one_only(kept: Kept) -> None:
    now = datetime.now(UTC)
    assert await kept.alarm() is None
    await kept.alarms.set(ALARM, now + 2 * HOUR)
    first = await kept.alarm()
    await kept.alarms.set(ALARM, now + 3 * HOUR)
    assert await kept.alarm() == first
    await kept.alarms.set(ALARM, now + HOUR)
    second = await kept.alarm()
    assert first is not None
    assert second is not None
    assert second < first


async def test_an_alarm_that_is_removed_can_be_set_again(kept: Kept) -> None:
    await kept.alarms.set(ALARM, datetime.now(UTC) + HOUR)
    first = await kept.alarm()
    kept.alarms.remove([ALARM])

    async def is_gone() -> bool:
        return await kept.alarm() is None

    await until(is_gone)
    await kept.alarms.set(ALARM, datetime.now(UTC) + 2 * HOUR)
    assert await kept.alarm() not in {None, first}


async def test_an_alarm_for_now_is_due_at_once(kept: Kept) -> None:
    await kept.alarms.set(ALARM, datetime.now(UTC))
    assert await kept.is_due()
    assert await kept.alarm() is None


async def test_an_alarm_that_has_come_is_not_rung_again(kept: Kept) -> None:
    assert await kept.alarms.ring(ALARM)
    assert await kept.is_due()
    assert not await kept.alarms.ring(ALARM)


async def test_only_the_newest_alarm_comes() -> None:
    clock, came = Clock(), list[datetime]()

    async def receive(_: Message) -> None:
        came.append(clock.now())

    environment, start = clock.in_environment(Environment()), clock.now()
    async with memory_dependencies(ALARM.service, environment) as memory:
        memory.server.alarms.receive = receive
        with clock.driving(memory.timers):
            for hours in (3, 1, 2):
                await memory.alarms.set(ALARM, start + hours * HOUR)
            await clock.advance(hours=4)
            assert came == [start + HOUR - LEAD]
            await memory.alarms.set(ALARM, start + 5 * HOUR)
            memory.alarms.remove([ALARM])
            await clock.advance(hours=4)
            assert len(came) == 1


async def test_an_alarm_is_delivered_until_it_is_acknowledged() -> None:
    clock, came = Clock(), list[timedelta]()
    start = clock.now()
    async with memory_dependencies(ALARM.service, clock.in_environment(Environment())) as memory:

        async def receive(alarm: Message) -> None:
            came.append(clock.now() - start)
            answer = answer_bytes(Nak(HOUR) if len(came) < 3 else Ack())
            await memory.connection.publish(alarm.reply, answer or b"")

        memory.server.alarms.receive = receive
        # The second one has the same purpose, as if another process had set it, too.
        await memory.alarms.set(ALARM, start)
        await memory.alarms.set(ALARM, start)
        with clock.driving(memory.timers):
            await clock.advance(hours=5)
    assert came == [timedelta(), timedelta(), HOUR, HOUR]


async def test_an_alarm_that_was_acknowledged_does_not_come_when_the_clock_moves() -> None:
    clock, job, came = Clock(), JobAddress("mill", "grind", "1"), list[str]()
    async with memory_dependencies("mill", clock.in_environment(Environment())) as memory:

        async def receive(alarm: Message) -> None:
            came.append(alarm.subject)
            await memory.connection.publish(alarm.reply, b"+ACK")

        memory.server.alarms.receive = receive
        await memory.alarms.set(subjects.alarm_of_job(job), clock.now())
        delivery = memory.server.alarms.due_alarm(job)
        assert delivery is not None
        await delivery
        with clock.driving(memory.timers):
            await clock.advance(hours=1)
    assert came == [subjects.due(subjects.alarm_of_job(job))]


class Schedule:
    """Fires every hour: the newest tick is in a record, which one process changes for each tick."""

    def __init__(self, memory: MemoryDependencies) -> None:
        self.records = ControlRecords(memory.connection, supports_ttl=True)
        self.alarms = memory.alarms
        self.now = memory.environment.now
        self.ticks: list[datetime] = []
        self.held: list[timedelta] = []

    async def handle(self, alarm: DueAlarm, hold: HoldAlarm) -> Answer:
        record = await self.records.newest(NIGHTLY)
        assert record is not None
        due = datetime.fromisoformat(record.data.decode())
        early = due - self.now()
        if early > timedelta():
            self.held.append(early)
            if not await hold(early):
                return Nak()
        following = due + HOUR
        changed = Record(NIGHTLY, record.revision, following.isoformat().encode())
        assert isinstance(await self.records.write(changed), int)
        self.ticks.append(self.now())
        await self.alarms.set(alarm.address, following)
        return Ack()


async def test_a_schedule_fires_when_the_clock_reaches_its_ticks() -> None:
    clock = Clock()
    environment, start = clock.in_environment(Environment()), clock.now()
    async with memory_dependencies(ALARM.service, environment) as memory:
        schedule = Schedule(memory)
        handlers = AlarmHandlers({AlarmFamily.SCHEDULE: schedule}, environment)
        worker = MemoryAlarmWorker(memory.connection, handlers, {})
        memory.server.alarms.receive = worker.receive
        first = (start + HOUR).isoformat().encode()
        await schedule.records.write(Record(NIGHTLY, 0, first))
        await schedule.alarms.set(ALARM, start + HOUR)
        with clock.driving(memory.timers):
            await clock.advance(hours=3, minutes=30)
        assert schedule.ticks == [start + n * HOUR for n in (1, 2, 3)]
        assert len(schedule.held) == 3, "the alarm comes early, and is delivered again in time"
        await memory.background.close()
