"""Without its stream of alarms, or with rubbish in it, a worker goes on, and recovers by itself."""

from __future__ import annotations

import logging
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from tests.delays.delay_lab import (
    A_DAY,
    ALARMS,
    LATER,
    SERVICE,
    SOON,
    Ledger,
    ledger,
    producer,
    seconds,
    worker,
)
from tests.support.example_service import Task
from tests.support.facts import until
from tests.support.fault_proxy import fault_proxy
from tests.support.lab import Probe
from trellis_jobs import Service, Workers
from trellis_jobs.contract.topology import DUE_CONSUMER, Topology
from trellis_jobs.embedded import HOST, EmbeddedServer
from trellis_jobs.environment import utc_now
from trellis_jobs.errors import NotPermitted, StreamMissing
from trellis_jobs.jetstream.client import api
from trellis_jobs.jetstream.setup.provision import provision
from trellis_jobs.model import subjects
from trellis_jobs.model.events import EventKind
from trellis_jobs.wire import headers as h

NO_ALARMS = "this worker cannot receive alarms"


async def make_alarms(raw: Probe) -> None:
    await provision(raw.connection, Topology(raw.features, alarms_of=(SERVICE,)))


async def test_without_the_stream_a_worker_runs_jobs_and_goes_on_when_it_is_there(
    server: EmbeddedServer, caplog: pytest.LogCaptureFixture
) -> None:
    async with worker(server.url, "work") as bench, ledger(server.url) as books:
        await books.until_received()
        with caplog.at_level(logging.WARNING):
            await books.delete_alarms()
            await until(lambda: NO_ALARMS in caplog.text, "the worker says so")
        assert ALARMS in caplog.text
        await (await bench.jobs.work.create(Task())).wait(timeout=20)
        with pytest.raises(StreamMissing, match=ALARMS):
            await bench.jobs.work.create(Task(), delay=SOON)
        await make_alarms(books.raw)
        ref = await bench.jobs.work.create(Task(), delay=SOON)
        await ref.wait(timeout=60)
        await books.ran_once_and_not_early(ref)
        assert caplog.text.count(NO_ALARMS) == 1


@pytest.mark.parametrize("what", ["stream", "consumer"])
async def test_a_stream_or_consumer_that_is_deleted_and_made_again_is_used_again(
    server: EmbeddedServer, what: str
) -> None:
    """The alarms are gone with their stream. Those of new jobs come."""
    async with worker(server.url, "work") as bench, ledger(server.url) as books:
        await books.until_received()
        old = await bench.jobs.work.create(Task(), delay=2 * SOON)
        if what == "stream":
            await books.delete_alarms()
            await make_alarms(books.raw)
        else:
            call = f"CONSUMER.DELETE.{ALARMS}.{DUE_CONSUMER}"
            await api.request(books.raw.connection, call)
        new = await bench.jobs.work.create(Task(), delay=SOON)
        await new.wait(timeout=60)
        if what == "stream":
            assert await books.kinds(old) == ["scheduled"]
            await books.repeat_alarm(old.address)  # as the admin runtime does
        await old.wait(timeout=60)
        await books.ran_once_and_not_early(new, old)


@asynccontextmanager
async def without_permission(denied: str) -> AsyncIterator[tuple[str, str]]:
    """The URLs of an owner, and of a service that may not publish to some subjects."""
    config = f"""authorization {{ users: [
        {{ user: owner, password: pw }}
        {{ user: later, password: pw, permissions: {{ publish: {{ deny: [{denied}] }} }} }}
    ] }}"""
    with EmbeddedServer.start(config=config) as server:
        owner, service = (f"nats://{who}:pw@{HOST}:{server.port}" for who in ("owner", "later"))
        yield owner, service


async def test_without_permissions_for_alarms_a_service_works_as_before(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """As with the permissions that were printed for the version before."""
    denied = f'"trellis.alarm.>", "trellis.due.>", "$JS.API.*.*.{ALARMS}.>", "$JS.API.*.*.{ALARMS}"'
    async with without_permission(denied) as (owner, service):
        async with ledger(owner) as books:
            await make_alarms(books.raw)
        with caplog.at_level(logging.WARNING):
            async with worker(service, "work") as bench:
                await until(lambda: NO_ALARMS in caplog.text, "the worker says so")
                await (await bench.jobs.work.create(Task())).wait(timeout=20)
                with pytest.raises(NotPermitted):
                    await bench.jobs.work.create(Task(), delay=SOON)
                await (await bench.jobs.work.create(Task())).wait(timeout=20)


def rubbish() -> list[tuple[str, dict[str, str]]]:
    """Messages that any client with the permissions of the service can publish."""
    job, odd = f"{SERVICE}.job.work.J", ("", "x", "0", "-1", "9999-12-31T23:59:59.999Z", "\u00df")
    far = ("@at 9999-12-31T23:59:59Z", "@at 2300-01-01T00:00:00Z", "@at 1970-01-01T00:00:00Z")
    due = [
        *(f"trellis.due.{SERVICE}.{rest}" for rest in ("x", "job.work", "job.work.J.K", "job.a.b")),
        f"trellis.due.{SERVICE}.nothing.work.J",
        f"trellis.due.{SERVICE}.job.work.{'J' * 300}",
        f"trellis.due.{SERVICE}.schedule.work.nightly",
        f"trellis.due.{SERVICE}.job.none.J",
    ]
    return [
        *((subject, {}) for subject in due),
        *((f"trellis.due.{job}{n}", {h.ALARM_SET_AT: text}) for n, text in enumerate(odd)),
        *((f"trellis.due.{job}{n}", {h.ALARM_AT: text}) for n, text in enumerate(odd)),
        *(
            (
                f"trellis.alarm.{job}{n}",
                {h.SCHEDULE: text, h.SCHEDULE_TARGET: f"trellis.due.{job}{n}"},
            )
            for n, text in enumerate(far)
        ),
        *((f"trellis.alarm.{SERVICE}.{rest}", {}) for rest in ("x", "job.work.J", "job")),
        (f"trellis.due.{job}", {"Status": "404", "Nats-Sequence": "1", "Nats-TTL": "1s"}),
        (f"trellis.due.{job}", {h.SCHEDULE: "@at 1970-01-01T00:00:00Z"}),
    ]


async def test_whatever_a_client_of_the_service_writes_the_alarms_go_on(
    server: EmbeddedServer, caplog: pytest.LogCaptureFixture
) -> None:
    async with worker(server.url, "work") as bench, ledger(server.url) as books:
        await books.until_received()
        before = await bench.jobs.work.create(Task(), delay=2 * SOON)
        for subject, headers in rubbish():
            for _ in range(3):
                await books.raw.connection.publish(subject, b"\xff{", headers=headers)
        after = await bench.jobs.work.create(Task(), delay=SOON)
        for ref in (before, after):
            await ref.wait(timeout=20)
        await books.ran_once_and_not_early(before, after)
        assert await books.count(EventKind.CREATED) == 2
    assert "Traceback" not in caplog.text


async def test_a_rubbish_alarm_under_the_id_of_a_job_does_not_keep_it_from_its_time(
    server: EmbeddedServer,
) -> None:
    """The subject of its alarm is taken: by no alarm, by a past one, by one for another target."""
    soon, tomorrow = (utc_now() + seconds(number) for number in (1.2, A_DAY))
    taken = [
        {},
        {"Status": "404"},
        {h.SCHEDULE: "@at 1970-01-01T00:00:00Z", h.SCHEDULE_TARGET: f"trellis.due.{SERVICE}.x"},
        {h.SCHEDULE: f"@at {soon.isoformat()}", h.SCHEDULE_TARGET: f"trellis.due.{SERVICE}.x"},
        {h.SCHEDULE: f"@at {tomorrow.isoformat()}", h.SCHEDULE_TARGET: f"trellis.due.{SERVICE}.x"},
        {h.SCHEDULE: "@every 1h", h.SCHEDULE_TARGET: f"trellis.due.{SERVICE}.x"},
    ]
    async with worker(server.url, "work") as bench, ledger(server.url) as books:
        refs = []
        for number, headers in enumerate(taken):
            address = subjects.alarm_of_job(bench.jobs.work.ref(f"J{number}").address)
            await books.publish(subjects.alarm(address), headers)
            create = bench.jobs.work.create
            refs.append(await create(Task(), job_id=f"J{number}", delay=2.0))
        await books.until_over(refs)
        await books.ran_once_and_not_early(*refs)


async def deliveries(books: Ledger) -> int:
    return int((await books.due_consumer())["delivered"]["consumer_seq"])


async def test_a_worker_that_stops_hands_its_alarms_to_another_at_once(
    server: EmbeddedServer,
) -> None:
    """Each alarm that is handed back is delivered once more: no other is delivered again, as it
    would be when its lease is over.
    """
    jobs, answers = 10, list[bytes]()
    async with (
        ledger(server.url) as books,
        fault_proxy(server.url) as way,
        worker(way.url, "work") as other,
    ):
        await books.until_received()
        way.on_answers(lambda _, answer: answers.append(answer), uses=sys.maxsize)
        for _ in range(20):
            before = await deliveries(books)
            answers.clear()
            stopping = Service(LATER, grace=0)
            stopping.jobs.patient.handle(other.handle)
            async with stopping.connect(way.url, workers=Workers(["patient"])):
                refs = [await other.jobs.work.create(Task(), delay=0.9) for _ in range(jobs)]
                await books.until_out(jobs)
            await books.until_over(refs)
            await books.ran_once_and_not_early(*refs)
            handed_back = [answer for answer in answers if answer.startswith(b"-NAK")]
            assert await deliveries(books) - before == jobs + len(handed_back)
            if b"-NAK" in answers:  # at once: the others are delayed
                return
        pytest.fail("on a busy machine the worker may hold no alarm when it stops, but not always")


async def test_alarms_that_come_while_no_worker_is_up_are_not_lost(server: EmbeddedServer) -> None:
    async with ledger(server.url) as books:
        async with producer(server.url) as jobs:
            refs = await jobs.work.create_many([Task()] * 20, delay=0.2)
            run_at = (await refs[-1].get()).run_at
            assert run_at is not None
            await books.until_time(run_at)
            assert await books.count(EventKind.CREATED) == 0
            async with worker(server.url, "work"):
                await books.until_over(refs)
        await books.ran_once_and_not_early(*refs)
