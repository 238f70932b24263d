"""Clocks that differ from the server's are measured and corrected.

A worker that was two hours ahead used to expire a job with an hour left, without any warning.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime, timedelta

import pytest

from jobs_admin.api.views.services import WorkerView
from jobs_admin.doctor.rules import check_worker_clocks
from tests.cli.shell import shell
from tests.support.example_service import Task, TaskWorker
from tests.support.facts import until
from tests.support.lab import lab_worker, probe, until_state
from trellis_jobs import Service, Workers
from trellis_jobs.embedded import HOST, EmbeddedServer
from trellis_jobs.environment import Environment, utc_now
from trellis_jobs.jetstream.client.server_clock import CorrectedClock
from trellis_jobs.jetstream.log.heartbeats import newest_heartbeats
from trellis_jobs.model.clock_offset import correction
from trellis_jobs.model.states import JobState

HOURS = timedelta(hours=2)
wrong = pytest.mark.parametrize("ahead", [HOURS, -HOURS], ids=["ahead", "behind"])


def seconds(number: float) -> timedelta:
    return timedelta(seconds=number)


@asynccontextmanager
async def with_clock(url: str, ahead: timedelta, *queues: str) -> AsyncIterator[TaskWorker]:
    """Runs a service on a machine with a wrong clock; without queues it only creates jobs."""
    made = lab_worker()
    made.service._runtime.environment = Environment(now=lambda: utc_now() + ahead)
    async with made.service.connect(url, workers=Workers(queues=queues) if queues else False):
        yield made
    made.go.set()


async def test_a_job_with_an_hour_left_is_run_by_a_worker_two_hours_ahead(
    server: EmbeddedServer, caplog: pytest.LogCaptureFixture
) -> None:
    async with with_clock(server.url, seconds(0)) as right:
        ref = await right.jobs.work.create(Task(), deadline=utc_now() + timedelta(hours=1))
        with caplog.at_level(logging.WARNING):
            async with with_clock(server.url, HOURS, "work"):
                await ref.wait(timeout=20)
        for event in await ref.events():
            assert abs(event.at - utc_now()) < timedelta(minutes=1)
        assert "the clock of this machine is 2 h ahead of the server's" in caplog.text


@wrong
async def test_deadlines_and_delays_are_by_the_servers_time(
    server: EmbeddedServer, ahead: timedelta
) -> None:
    async with with_clock(server.url, ahead, "work") as wrong_clock:
        queue = wrong_clock.jobs.work
        ref = await queue.create(Task(do="later", seconds=0.3), deadline=timedelta(hours=1))
        job = await ref.get()
        assert job.deadline is not None
        assert abs(job.deadline - utc_now() - timedelta(hours=1)) < timedelta(minutes=1)
        retried = await until_state(ref, JobState.COMPLETED)
        assert retried.tries == 2


async def test_a_producer_without_handlers_is_corrected_with_the_rights_of_a_service() -> None:
    """It may not read the info of streams, only that of the consumers of its service."""
    denied = json.dumps({"deny": ["$JS.API.INFO", "$JS.API.STREAM.INFO.>"]})
    config = f"""authorization {{ users: [
        {{ user: owner, password: pw }}
        {{ user: lab, password: pw, permissions: {{ publish: {denied} }} }}
    ] }}"""
    with EmbeddedServer.start(config=config) as server:
        owner, lab = (f"nats://{who}:pw@{HOST}:{server.port}" for who in ("owner", "lab"))
        async with with_clock(owner, seconds(0), "work"):
            pass  # the consumer of the queue exists from now on
        producer = Service(type(lab_worker().jobs))
        producer._runtime.environment = Environment(now=lambda: utc_now() + HOURS)
        async with producer.connect(lab, workers=False):
            ref = await producer.jobs.work.create(Task())
            [created] = await ref.events()
        assert abs(created.at - utc_now()) < timedelta(minutes=1)


async def test_heartbeats_report_the_offset_and_operators_see_it(server: EmbeddedServer) -> None:
    async with with_clock(server.url, HOURS, "work"), probe(server.url) as raw:

        async def reported() -> timedelta | None:
            received = await newest_heartbeats(raw.connection)
            return received[0].beat.clock_ahead if received else None

        offset = await until(reported, "the heartbeat has the offset")
        assert abs(offset - HOURS) < seconds(5)
        listed = await asyncio.to_thread(shell, "workers", "list", "--nats", server.url)
        assert "+2 h" in listed.out
        listed = await asyncio.to_thread(shell, "workers", "list", "--json", "--nats", server.url)
        [worker] = json.loads(listed.out)["workers"]
        assert abs(worker["clockOffsetMs"] - HOURS / timedelta(milliseconds=1)) < 5000


def test_doctor_names_workers_whose_clock_is_wrong() -> None:
    def view(instance: str, offset: int | None) -> WorkerView:
        return WorkerView(
            service="lab",
            job_type="work",
            instance_id=instance,
            timestamp=datetime.fromisoformat("2026-01-01T00:00:00Z"),
            clock_offset_ms=offset,
        )

    found = check_worker_clocks([view("a", 7_200_000), view("b", -3000), view("c", 900)])
    assert [finding.message for finding in found] == [
        "the clock of worker a of lab is 2 h ahead of the server's",
        "the clock of worker b of lab is 3 s behind the server's",
    ]
    assert check_worker_clocks([view("d", None)]) == []


def test_only_notable_differences_are_corrected_and_without_jitter() -> None:
    none = seconds(0)
    assert correction(seconds(1.9), none) == none
    assert correction(seconds(-2.1), none) == seconds(-2.1)
    assert correction(seconds(-2.3), seconds(-2.1)) == seconds(-2.1)  # too little to follow
    assert correction(seconds(-3), seconds(-2.1)) == seconds(-3)
    assert correction(seconds(1.5), seconds(2.5)) == seconds(1.5)  # in use until 1 s
    assert correction(seconds(0.9), seconds(1.5)) == none


async def test_a_clock_that_is_set_is_corrected_no_more(server: EmbeddedServer) -> None:
    ahead = HOURS
    async with with_clock(server.url, seconds(0)), probe(server.url) as raw:
        clock = CorrectedClock(lambda: utc_now() + ahead, ["STREAM.INFO.JOBS"])
        await clock.measure(raw.connection)
        assert abs(clock.now() - utc_now()) < seconds(5)
        ahead = seconds(0)
        await clock.measure(raw.connection)
        assert abs(clock.now() - utc_now()) < seconds(1)


async def test_without_the_servers_time_the_machines_clock_is_used(server: EmbeddedServer) -> None:
    async with probe(server.url) as raw:  # there is no stream
        clock = CorrectedClock(lambda: utc_now() + HOURS, ["STREAM.INFO.JOBS"])
        await clock.measure(raw.connection)
        assert clock.ahead() is None
        assert clock.now() - utc_now() > timedelta(hours=1)
