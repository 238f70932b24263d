"""A worker process has a record: it registers, beats, follows directives, and deregisters."""

from __future__ import annotations

import logging
import os
import socket
from importlib.metadata import version
from typing import Any

import pytest

from tests.support.example_service import Task
from tests.support.facts import until
from tests.support.lab import Probe, probe, producer, until_state
from tests.workers.records import (
    records_of,
    registered_worker,
    the_worker,
    until_record,
    write_directive,
    write_verdict,
)
from trellis_jobs import JobRef
from trellis_jobs.embedded import EmbeddedServer
from trellis_jobs.jetstream.client import api
from trellis_jobs.model import events as e
from trellis_jobs.model import subjects
from trellis_jobs.model.states import JobState
from trellis_jobs.model.worker_record import Refusal
from trellis_jobs.model.worker_states import WorkerState


async def test_a_worker_is_registered_when_it_takes_its_first_job(server: EmbeddedServer) -> None:
    options: dict[str, Any] = {"version": "1.4.2", "labels": ["eu", "spot"]}
    async with (
        registered_worker(server.url, "work", "single", **options) as made,
        probe(server.url) as raw,
    ):
        stored = await the_worker(raw)
        profile = stored.record.profile
        assert (profile.service, profile.hostname) == ("lab", socket.gethostname())
        assert (profile.pid, profile.version) == (os.getpid(), version("trellis-jobs"))
        assert (profile.app_version, profile.labels) == ("1.4.2", ("eu", "spot"))
        assert [(q.job_type, q.concurrency) for q in profile.queues] == [
            ("work", 10),
            ("single", 1),
        ]
        assert profile.concurrency == 11
        assert stored.record.state is WorkerState.RUNNING
        ref = await made.jobs.work.create(Task(do="wait"))
        await made.until_running(ref)
        await until_record(raw, lambda r: r.active == {"work": (ref.id,)}, "the job is reported")
        beaten = await until_record(
            raw, lambda r: r.beat > stored.record.beat + 2, "the worker beats"
        )
        assert beaten.revision > stored.revision
        made.go.set()
        await ref.wait(timeout=30)


async def test_a_worker_deregisters_after_its_last_job(server: EmbeddedServer) -> None:
    async with probe(server.url) as raw:
        async with registered_worker(server.url, "work") as made:
            ref = await made.jobs.work.create(Task())
            await ref.wait(timeout=30)
            await until_record(raw, lambda r: r.beat >= 2, "the lease thread beats")
        assert (await the_worker(raw)).record.state is WorkerState.TERMINATED


async def test_a_record_expires_without_an_admin_runtime(server: EmbeddedServer) -> None:
    async with probe(server.url) as raw:
        async with registered_worker(server.url, "work"):
            beaten = await until_record(raw, lambda r: r.beat >= 2, "the lease thread beats")
            service = beaten.record.profile
            subject = subjects.worker(service.service, service.instance)
            lives = await api.newest(raw.connection, "JOBS_CONTROL", subject)
        gone = await api.newest(raw.connection, "JOBS_CONTROL", subject)
    assert (lives.headers["Nats-TTL"], gone.headers["Nats-TTL"]) == ("300s", "60s")


async def test_a_directive_reaches_a_worker_before_its_next_beat(server: EmbeddedServer) -> None:
    """With beats every 100 s, only the copy of the directive can make the worker read it."""
    async with (
        registered_worker(server.url, "work", dead_after=500) as made,
        probe(server.url) as raw,
    ):
        await write_directive(raw, WorkerState.QUIET, reason="deploy of 1.5")
        await until_record(raw, lambda r: r.state is WorkerState.QUIET, "the worker is quiet")
        ref = await made.jobs.work.create(Task())
        await write_directive(raw, WorkerState.RUNNING)
        await ref.wait(timeout=30)
        assert made.runs == [(ref.id, 1)]


async def test_a_worker_that_is_directed_to_terminate_stops(server: EmbeddedServer) -> None:
    async with registered_worker(server.url, "work") as made, probe(server.url) as raw:
        await write_directive(raw, WorkerState.TERMINATE)
        await made.service.wait()
        assert (await the_worker(raw)).record.state is WorkerState.TERMINATED


async def test_a_directive_to_resume_does_not_reach_a_worker_that_terminates(
    server: EmbeddedServer,
) -> None:
    async with registered_worker(server.url, "work") as made, probe(server.url) as raw:
        ref = await made.jobs.work.create(Task(do="wait"))
        await made.until_running(ref)
        await write_directive(raw, WorkerState.TERMINATE)
        await until_record(raw, lambda r: r.state is WorkerState.TERMINATE, "it terminates")
        assert await write_directive(raw, WorkerState.RUNNING) == Refusal("it is stopping")
        made.go.set()
        await made.service.wait()


async def test_an_old_directive_does_not_wake_a_worker_that_was_quieted_on_its_machine(
    server: EmbeddedServer,
) -> None:
    async with registered_worker(server.url, "work") as made, probe(server.url) as raw:
        await write_directive(raw, WorkerState.QUIET)
        await until_record(raw, lambda r: r.state is WorkerState.QUIET, "the worker is quiet")
        await write_directive(raw, WorkerState.RUNNING)
        await until_record(raw, lambda r: r.state is WorkerState.RUNNING, "the worker runs")
        made.service.quiet()
        quiet = await until_record(raw, lambda r: r.state is WorkerState.QUIET, "it is quiet")
        later = await until_record(raw, lambda r: r.beat > quiet.record.beat + 3, "it beats on")
        assert later.record.state is WorkerState.QUIET
        assert later.record.directive is not None
        assert later.record.directive.state is WorkerState.RUNNING


async def test_a_worker_that_was_declared_dead_registers_under_a_new_id(
    server: EmbeddedServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    async with registered_worker(server.url, "work") as made, probe(server.url) as raw:
        former = (await the_worker(raw)).record.profile.instance
        ref = await made.jobs.work.create(Task(do="wait"))
        await made.until_running(ref)
        await write_verdict(raw)
        fresh = await until_record(raw, lambda r: r.verdict is None, "it registers again")
        assert fresh.record.profile.instance != former
        assert any("was declared dead by an admin" in line for line in caplog.messages)
        made.go.set()
        await ref.wait(timeout=30)
        later = await made.jobs.work.create(Task())
        await later.wait(timeout=30)
        owners = [await _instance(raw, each) for each in (ref, later)]
    assert owners == [former, fresh.record.profile.instance]


async def _instance(raw: Probe, ref: JobRef[Any]) -> str:
    history = await raw.events.history(ref.address)
    (started,) = [entry.event for entry in history if isinstance(entry.event, e.Started)]
    assert started.attempt is not None
    return started.attempt.instance


async def test_a_record_that_is_lost_is_written_again_under_the_same_id(
    server: EmbeddedServer,
) -> None:
    async with (
        registered_worker(server.url, "work", dead_after=10),
        probe(server.url) as raw,
    ):
        before = await the_worker(raw)
        await api.request(raw.connection, "STREAM.PURGE.JOBS_CONTROL", {})
        again = await until_record(raw, lambda r: r.beat > before.record.beat, "it is there again")
        assert again.record.profile == before.record.profile


async def test_bytes_that_are_no_record_are_overwritten(server: EmbeddedServer) -> None:
    async with registered_worker(server.url, "work"), probe(server.url) as raw:
        before = await the_worker(raw)
        profile = before.record.profile
        subject = subjects.worker(profile.service, profile.instance)
        await raw.connection.request(subject, b"{broken")
        await until_record(raw, lambda r: r.beat > before.record.beat, "the record is back")


async def test_a_worker_runs_jobs_without_the_stream_of_the_records(
    server: EmbeddedServer, caplog: pytest.LogCaptureFixture
) -> None:
    async with registered_worker(server.url, "work") as made, probe(server.url) as raw:
        await api.request(raw.connection, "STREAM.DELETE.JOBS_CONTROL")
        said = "the record of this worker was not written"
        await until(lambda: any(said in line for line in caplog.messages), "the worker warns")
        ref = await made.jobs.work.create(Task())
        assert (await ref.wait(timeout=30)).tries == 1
    assert sum(said in line for line in caplog.messages) == 1


async def test_a_producer_has_no_record(server: EmbeddedServer) -> None:
    async with producer(server.url), probe(server.url) as raw:
        assert await records_of(raw).all() == []


async def test_a_blocked_event_loop_does_not_stop_the_beats(server: EmbeddedServer) -> None:
    """The handler blocks the event loop for three seconds, longer than `dead_after`."""
    async with (
        registered_worker(server.url, "work") as made,
        probe(server.url) as raw,
    ):
        ref = await made.jobs.work.create(Task(do="block", seconds=3))
        await until_state(ref, JobState.COMPLETED)
        beats = (await the_worker(raw)).record.beat
    assert beats >= 10


async def test_a_stored_beat_causes_no_other_beat(server: EmbeddedServer) -> None:
    """The server hints at each stored record, also at those that the worker has written."""
    async with (
        registered_worker(server.url, "work", dead_after=500) as made,
        probe(server.url) as raw,
    ):
        first = await until_record(raw, lambda r: r.beat >= 1, "the worker has beaten")
        await write_directive(raw, WorkerState.QUIET)
        await until_record(raw, lambda r: r.state is WorkerState.QUIET, "it is quiet")
        made.service.resume()
        await until_record(raw, lambda r: r.state is WorkerState.RUNNING, "it runs again")
        for _ in range(20):
            await (await made.jobs.work.create(Task())).wait(timeout=30)
        last = await the_worker(raw)
        assert last.record.beat - first.record.beat <= 10, "one beat every 5 s, and three others"
