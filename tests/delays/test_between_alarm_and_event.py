"""The alarm is set before the event is in the log, and may come before it; or no event follows."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta

import pytest

from tests.delays.delay_lab import (
    A_DAY,
    ALARMS,
    SERVICE,
    Ledger,
    check_never_early,
    ledger,
    producer,
    worker,
)
from tests.keys.keyed_lab import Held
from tests.support.example_service import Task, TaskJobs
from tests.support.facts import until
from tests.support.fault_proxy import FaultProxy, fault_proxy
from tests.support.lab import until_state
from trellis_jobs.embedded import EmbeddedServer
from trellis_jobs.environment import utc_now
from trellis_jobs.jetstream.alarms.due_alarms import DueAlarm
from trellis_jobs.jetstream.client import api
from trellis_jobs.jetstream.client.delivery_info import read_reply
from trellis_jobs.jetstream.client.message import Message
from trellis_jobs.jetstream.client.stored_message import moment_of
from trellis_jobs.model import subjects
from trellis_jobs.model.events import EventKind
from trellis_jobs.model.identity import JobAddress
from trellis_jobs.model.states import JobState
from trellis_jobs.wire import headers as h

ALARM_STORED = rb'"stream":"%s", ?"seq":[1-9]' % ALARMS.encode()
JOB = JobAddress(SERVICE, "work", "J")
# Of a message that was stored in 2025, delivered for the first time.
ACKNOWLEDGE_AT = f"$JS.ACK.{ALARMS}.due.1.7.7.1763000000000000000.0"


@asynccontextmanager
async def held_up(url: str) -> AsyncIterator[tuple[TaskJobs, FaultProxy]]:
    """A producer whose messages can be held back."""
    async with fault_proxy(url) as way, producer(way.url) as jobs:
        try:
            yield jobs, way
        finally:
            way.thaw()


async def until_redelivered(books: Ledger) -> None:
    async def redelivered() -> bool:
        return int((await books.due_consumer())["num_redelivered"]) > 0

    await until(redelivered, "the alarm was handed back once")


async def test_an_alarm_that_comes_before_its_job_waits_for_it(server: EmbeddedServer) -> None:
    async with (
        worker(server.url, "work"),
        held_up(server.url) as (jobs, way),
        ledger(server.url) as books,
    ):
        held = Held(way, ALARM_STORED)
        creating = asyncio.create_task(jobs.work.create(Task(), delay=0.1))
        await held.until_still()
        await until_redelivered(books)
        way.thaw()
        ref = await creating
        await ref.wait(timeout=20)
        await books.ran_once_and_not_early(ref)
        await books.until_no_alarms()


@pytest.mark.parametrize("waits_for", ["its time", "its next try"])
async def test_an_alarm_that_comes_before_its_move_waits_for_it(
    server: EmbeddedServer, waits_for: str
) -> None:
    """Also if the job was delayed before, and was released since."""
    async with (
        worker(server.url, "patient"),
        held_up(server.url) as (jobs, way),
        ledger(server.url) as books,
    ):
        if waits_for == "its time":
            ref = await jobs.patient.create(Task(do="fail once"), delay=A_DAY)
        else:
            ref = await jobs.patient.create(Task(do="fail once"), delay=0.2)
            await until_state(ref, JobState.RETRY)
            await books.until_no_alarms()
        held = Held(way, ALARM_STORED)
        moving = asyncio.create_task(ref.run_now())
        await held.until_still()
        await until_redelivered(books)
        way.thaw()
        await moving
        tries = 1 if waits_for == "its time" else 2
        await until_state(ref, JobState.RETRY if tries == 1 else JobState.COMPLETED)
        assert (await books.kinds(ref)).count("started") == tries
        check_never_early(await books.stored(ref))


async def test_an_alarm_that_another_process_set_long_ago_waits_for_the_new_job_too(
    server: EmbeddedServer,
) -> None:
    """That process died before its event. The alarm would have been dropped as one without a job,
    between the look of the new process at it and the event of the new process.
    """
    async with (
        worker(server.url, "work"),
        held_up(server.url) as (jobs, way),
        ledger(server.url) as books,
    ):
        await books.set_old_alarm(JOB, delay=1.5)
        held = Held(way, ALARM_STORED)
        creating = asyncio.create_task(jobs.work.create(Task(), job_id=JOB.job_id, delay=3))
        await held.until_still()
        await until_redelivered(books)
        way.thaw()
        ref = await creating
        await ref.wait(timeout=20)
        await books.ran_once_and_not_early(ref)


async def test_an_alarm_without_a_job_is_dropped_after_a_minute(server: EmbeddedServer) -> None:
    async with worker(server.url, "work") as bench, ledger(server.url) as books:
        due = subjects.due(subjects.alarm_of_job(JOB))
        old, new = (
            {h.ALARM_SET_AT: (utc_now() - timedelta(seconds=age)).isoformat()} for age in (61, 0)
        )
        await books.publish(due, old)
        await books.until_no_alarms()
        await books.publish(due, new)
        await until_redelivered(books)
        ref = await bench.jobs.work.create(Task(), job_id=JOB.job_id, delay=0.5)
        await ref.wait(timeout=20)
        await books.ran_once_and_not_early(ref)
        await books.until_no_alarms()


async def test_an_alarm_cannot_claim_to_be_set_in_the_future(server: EmbeddedServer) -> None:
    """Otherwise it would be delivered again for as long as it claims."""
    async with worker(server.url, "work"), ledger(server.url) as books:
        forged = {h.ALARM_SET_AT: "9999-12-31T00:00:00+00:00", h.ALARM_AT: "not a time"}
        due = subjects.due(subjects.alarm_of_job(JOB))
        came = Message(due, b"", ACKNOWLEDGE_AT, h.block(forged))
        info = read_reply(ACKNOWLEDGE_AT)
        assert info is not None
        alarm = DueAlarm(books.raw.connection, came.reply, subjects.alarm_of_job(JOB), (came, info))
        assert alarm.set_at == moment_of(info.stored_ns) < alarm.at


async def test_an_alarm_is_not_dropped_because_a_replica_does_not_have_its_job_yet(
    server: EmbeddedServer,
) -> None:
    """The only alarm of the job comes, a while after it was set. A replica says: no such job."""
    async with ledger(server.url) as books, producer(server.url) as jobs:
        ref = await jobs.work.create(Task(), delay=1.5)
        await api.request(books.raw.connection, f"STREAM.PURGE.{ALARMS}")
        async with fault_proxy(server.url) as way, worker(way.url, "work"):
            lies = way.answer_reads_with_404(1)
            set_at = utc_now() - timedelta(minutes=5)
            due = subjects.due(subjects.alarm_of_job(ref.address))
            await books.publish(due, {h.ALARM_SET_AT: set_at.isoformat()})
            await ref.wait(timeout=20)
            assert lies() == 1
        await books.ran_once_and_not_early(ref)


@pytest.mark.parametrize("moved", ["earlier", "later"])
async def test_a_move_that_never_reached_the_log_does_not_make_the_job_early_or_late(
    server: EmbeddedServer, moved: str
) -> None:
    """The process died after it had set the alarm, a while ago: the log has the other time."""
    async with worker(server.url, "work") as bench, ledger(server.url) as books:
        ref = await bench.jobs.work.create(Task(), delay=3.0)
        if moved == "earlier":
            await books.set_old_alarm(ref.address, delay=1.3)
        else:
            await books.publish(subjects.due(subjects.alarm_of_job(ref.address)), {})
        await ref.wait(timeout=20)
        await books.ran_once_and_not_early(ref)
        assert await books.count(EventKind.CREATED) == 1
        await books.until_no_alarms()
