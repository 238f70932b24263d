"""Work that is lost is found again: jobs that the log says are to be done end, and end once."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from jobs_admin.actions.guarded_append import GuardedAppender
from jobs_admin.maintenance.pace import Pace
from jobs_admin.maintenance.reconciliation import (
    PAGE_SIZE,
    LeaveAlone,
    MarkAttemptLost,
    PutBack,
    Reconciliation,
    decide,
    plan_loss,
)
from jobs_admin.maintenance.worker_liveness import WorkerLiveness
from jobs_admin.projection.projector import Projector
from jobs_admin.projection.store import Projection
from jobs_admin.reads import candidates
from jobs_admin.reads.position import FilePosition
from jobs_admin.reads.read_your_writes import LogProgress
from jobs_admin.reads.readers import Readers
from tests import given
from tests.admin.upkeep_lab import (
    forget_heartbeats,
    looking_after,
    producer,
    purge,
    until_kind,
    until_sourced,
    until_state,
    until_swept,
    ward_process,
    worker,
)
from tests.support.example_service import Task, TaskWorker
from tests.support.facts import until
from tests.support.lab import Probe, probe
from trellis_jobs import JobRef
from trellis_jobs.contract.topology import Topology
from trellis_jobs.embedded import EmbeddedServer
from trellis_jobs.environment import Environment
from trellis_jobs.jetstream.client import api
from trellis_jobs.jetstream.client.server_clock import ServerClock
from trellis_jobs.jetstream.log.event_log import Latest
from trellis_jobs.jetstream.log.feed import LogFeed
from trellis_jobs.jetstream.log.presence import Presence
from trellis_jobs.jetstream.setup.provision import provision
from trellis_jobs.jetstream.work.consumer_info import QueueConsumers
from trellis_jobs.jetstream.work.messages import WorkMessages
from trellis_jobs.model import events as e
from trellis_jobs.model import subjects
from trellis_jobs.model.events import EventKind
from trellis_jobs.model.job_status import Head
from trellis_jobs.model.states import OVER, JobState
from trellis_jobs.wire import headers as h

ENDINGS = {"completed", "failed", "dead", "cancelled", "expired", "stale", "skipped"}


async def lose_the_messages(raw: Probe) -> None:
    await purge(raw, "JOBS_WORK")


async def lose_the_stream(raw: Probe) -> None:
    await api.request(raw.connection, "STREAM.DELETE.JOBS_WORK")
    await provision(raw.connection, Topology(raw.features))


@pytest.mark.parametrize("lose", [lose_the_messages, lose_the_stream])
async def test_all_jobs_end_once_though_the_work_queue_was_lost(
    server: EmbeddedServer, tmp_path: Path, lose: Any
) -> None:
    """Some wait for a worker, some for their next try, and some run."""
    async with (
        worker(server.url, "plain", grace=5) as ward,
        probe(server.url) as raw,
        looking_after(server.url, tmp_path / "jobs.sqlite"),
    ):
        create = ward.jobs.plain.create
        running = [await create(Task(do="wait")) for _ in range(5)]
        failing = [await create(Task(do="wait, then fail once")) for _ in range(5)]
        await ward.until_running(*running, *failing)
        ward.service.quiet()
        ward.let_go(*failing)
        for ref in failing:
            await until_state(ref, JobState.RETRY)
        pending = [await create(Task()) for _ in range(5)]
        await until_sourced(raw, 15)
        await lose(raw)
        ward.service.resume()
        ward.go.set()
        refs = [*running, *failing, *pending]
        await all_end_once(raw, refs)
        assert {ref.id: (await ref.get()).tries for ref in refs} == {
            **{ref.id: 1 for ref in (*running, *pending)},
            **{ref.id: 2 for ref in failing},
        }
        assert ran(ward, failing) == [2] * len(failing)
        assert ran(ward, [*running, *pending]) == [1] * 10
        await raw.until_empty()


async def all_end_once(raw: Probe, refs: Sequence[JobRef[Any]]) -> None:
    for ref in refs:
        await until_state(ref, *OVER)
    for ref in refs:
        ends = [kind for kind in await raw.kinds(ref) if kind in ENDINGS]
        assert ends == ["completed"], ref


def ran(ward: TaskWorker, refs: Sequence[JobRef[Any]]) -> list[int]:
    """How often each of the jobs was begun."""
    begun = Counter(job_id for job_id, _ in ward.runs)
    return [begun[ref.id] for ref in refs]


async def test_a_running_job_whose_worker_and_work_are_both_gone_is_tried_again(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    async with producer(server.url) as jobs, probe(server.url) as raw:
        ref = await jobs.plain.create(Task())
        with ward_process(server.url, tmp_path / "worker", "plain") as process:
            await process.until_begun(ref)
            await purge(raw, "JOBS_WORK")
            process.kill()
        await forget_heartbeats(raw)
        async with looking_after(server.url, tmp_path / "jobs.sqlite"), worker(server.url, "plain"):
            assert (await ref.wait(timeout=30)).tries == 2
        kinds = await raw.kinds(ref)
        assert kinds == ["created", "started", "retry", "started", "completed"]
        lost = (await raw.events.history(ref.address))[2].event
        assert isinstance(lost, e.RetryScheduled)
        assert lost.error.type == "work_lost"


async def test_a_job_whose_last_try_was_lost_with_its_work_is_dead(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    async with producer(server.url) as jobs, probe(server.url) as raw:
        ref = await jobs.single.create(Task())
        with ward_process(server.url, tmp_path / "worker", "single") as process:
            await process.until_begun(ref)
            await purge(raw, "JOBS_WORK")
            process.kill()
        await forget_heartbeats(raw)
        async with looking_after(server.url, tmp_path / "jobs.sqlite"):
            assert await until_kind(raw, ref, EventKind.DEAD) == ["created", "started", "dead"]
        job = await ref.get()
        assert job.last_error is not None
        assert job.last_error.type == "work_lost"
        assert await raw.work_messages() == 0


async def test_a_running_job_whose_work_is_lost_is_left_to_its_worker(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    async with (
        worker(server.url, "plain") as ward,
        probe(server.url) as raw,
        looking_after(server.url, tmp_path / "jobs.sqlite") as daemon,
    ):
        ref = await ward.jobs.plain.create(Task(do="wait"))
        await ward.until_running(ref)
        await purge(raw, "JOBS_WORK")
        began = asyncio.get_running_loop().time()
        while asyncio.get_running_loop().time() - began < 3:  # more than two ack_waits
            await until_swept(daemon, "reconciliation")
        assert await raw.kinds(ref) == ["created", "started"]
        ward.go.set()
        assert (await ref.wait(timeout=10)).tries == 1


async def test_a_job_whose_worker_died_is_left_to_the_server_as_long_as_its_message_is_there(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    async with producer(server.url) as jobs, probe(server.url) as raw:
        ref = await jobs.single.create(Task())
        with ward_process(server.url, tmp_path / "worker", "single") as process:
            await process.until_begun(ref)
            process.kill()
        await forget_heartbeats(raw)
        async with looking_after(server.url, tmp_path / "jobs.sqlite") as daemon:
            began = asyncio.get_running_loop().time()
            while asyncio.get_running_loop().time() - began < 4:  # more than two ack_waits
                await until_swept(daemon, "reconciliation")
            assert await raw.kinds(ref) == ["created", "started"]


async def test_a_young_job_is_given_time_to_reach_the_work_queue(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    async with producer(server.url) as jobs, probe(server.url) as raw:
        await jobs.plain.create(Task())
        await until_sourced(raw, 1)
        await purge(raw, "JOBS_WORK")
        hour = timedelta(hours=1)
        async with looking_after(
            server.url, tmp_path / "jobs.sqlite", reconcile_grace=hour
        ) as daemon:
            await until_swept(daemon, "reconciliation", times=3)
            assert await raw.work_messages() == 0


async def test_one_lost_message_behind_thousands_that_wait_is_found_in_one_sweep(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    """Which a sweep does not get to, that looks at some jobs of each state."""
    path = tmp_path / "jobs.sqlite"
    async with producer(server.url) as jobs, probe(server.url) as raw:
        refs = await jobs.plain.create_many([Task()] * (5 * PAGE_SIZE))
        await until_sourced(raw, len(refs))
        async with Projector.open(LogFeed(raw.connection), path) as projector:
            await projector.run(until=(await LogFeed(raw.connection).extent()).last_sequence)
        await purge(raw, "JOBS_WORK", subjects.work(refs[-1].address))
        async with Readers.open(path) as readers:
            await reconciliation(raw, readers).sweep()
        assert await raw.work_messages() == len(refs)


def reconciliation(raw: Probe, readers: Readers) -> Reconciliation:
    """As the daemon has it, and without any grace."""
    around, progress = Environment(), LogProgress(FilePosition(readers), raw.connection)
    return Reconciliation(
        readers=readers,
        appender=GuardedAppender(raw.connection, raw.events),
        work=WorkMessages(raw.connection),
        consumers=QueueConsumers(raw.connection),
        liveness=WorkerLiveness(Presence(raw.connection, raw.features), around.monotonic),
        clock=ServerClock(raw.connection, around.monotonic),
        now=around.now,
        grace=timedelta(0),
        is_caught_up=progress.is_caught_up,
        position=lambda: progress.position,
        pace=Pace(lambda: progress.position),
        report_progress=lambda: None,
    )


async def test_two_daemons_put_a_job_back_once(server: EmbeddedServer, tmp_path: Path) -> None:
    async with producer(server.url) as jobs, probe(server.url) as raw:
        refs = await asyncio.gather(*(jobs.plain.create(Task()) for _ in range(200)))
        await until_sourced(raw, 200)
        await purge(raw, "JOBS_WORK")
        before = await last_sequence(raw)
        async with (
            looking_after(server.url, tmp_path / "one.sqlite") as one,
            looking_after(server.url, tmp_path / "two.sqlite") as two,
        ):
            await until_sourced(raw, 200)
            await asyncio.gather(
                until_swept(one, "reconciliation", times=3),
                until_swept(two, "reconciliation", times=3),
            )
        assert await last_sequence(raw) == before + 200
        async with worker(server.url, "plain") as ward:
            await all_end_once(raw, refs)
            assert ran(ward, refs) == [1] * 200


async def last_sequence(raw: Probe) -> int:
    info = await api.request(raw.connection, "STREAM.INFO.JOBS_WORK")
    return int(info["state"]["last_seq"])


async def test_the_run_that_was_lost_is_put_back_and_not_an_earlier_one(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    async with worker(server.url, "single") as ward, probe(server.url) as raw:
        ref = await ward.jobs.single.create(Task(do="always fail"))
        await until_kind(raw, ref, EventKind.DEAD)
    async with probe(server.url) as raw:
        await raw.until_empty()
        *_, died = await raw.events.history(ref.address)
        assert died.status is not None
        again = e.Retried(
            job=ref.address,
            context=died.event.context,
            at=died.event.at,
            tries=0,
            payload={"do": "answer"},
            max_tries=1,
        )
        await raw.events.append(Head(died.sequence, died.status), again)
        await until_sourced(raw, 1)
        await purge(raw, "JOBS_WORK")
        async with looking_after(server.url, tmp_path / "jobs.sqlite"):
            await until_sourced(raw, 1)
        async with worker(server.url, "single") as ward:
            kinds = await until_kind(raw, ref, EventKind.COMPLETED)
            assert kinds[-3:] == ["retried", "started", "completed"]
            assert ward.runs == [(ref.id, 1)]


async def test_jobs_that_wait_in_the_work_queue_are_left_there(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    async with (
        producer(server.url) as jobs,
        probe(server.url) as raw,
        looking_after(server.url, tmp_path / "jobs.sqlite") as daemon,
    ):
        refs = [await jobs.plain.create(Task()) for _ in range(20)]
        await until_sourced(raw, 20)
        before = await last_sequence(raw)
        began = asyncio.get_running_loop().time()
        while asyncio.get_running_loop().time() - began < 1.5:  # thrice the grace
            await until_swept(daemon, "reconciliation")
        assert (await last_sequence(raw), await raw.work_messages()) == (before, 20)
        assert [await raw.kinds(ref) for ref in refs] == [["created"]] * 20


async def test_a_stranger_cannot_keep_lost_work_from_being_found(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    """Bytes under a job's subjects that are no event: the projection does not count them."""
    async with producer(server.url) as jobs, probe(server.url) as raw:
        ref = await jobs.plain.create(Task())
        await until_sourced(raw, 1)
        await raw.connection.request(
            subjects.lifecycle(ref.address, EventKind.PROGRESS), b"rubbish"
        )
        await purge(raw, "JOBS_WORK")
        async with looking_after(server.url, tmp_path / "jobs.sqlite"):
            await until_sourced(raw, 1)


async def test_a_put_back_message_names_its_run_and_keeps_the_trace(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    async with producer(server.url) as jobs, probe(server.url) as raw:
        ref = await jobs.plain.create(Task())
        await until_sourced(raw, 1)
        await purge(raw, "JOBS_WORK")
        received: list[Any] = []
        watching = await raw.connection.subscribe(subjects.work(ref.address), received.append)
        async with looking_after(server.url, tmp_path / "jobs.sqlite"):
            message = await until(lambda: received[0] if received else None, "it is put back")
        await raw.connection.unsubscribe(watching)
        (first,) = await raw.events.history(ref.address)
        assert message.headers[h.RUN_SEQUENCE] == str(first.sequence)
        assert message.headers["traceparent"] == first.event.context.traceparent
        assert message.headers[h.EXPECTED_SEQUENCE] == "0"


async def test_a_sweep_reads_only_those_that_have_not_moved_for_a_while(tmp_path: Path) -> None:
    async with (
        Projection.open(tmp_path / "jobs.sqlite"),
        Readers.open(tmp_path / "jobs.sqlite") as readers,
    ):
        plan = f"EXPLAIN QUERY PLAN {candidates.RESTING}"
        steps = await readers.rows(plan, ("pending", 0, 0, 0, 0))
        assert "(state=? AND last_stored_at>? AND last_stored_at<?)" in steps[0][-1]
        assert len(steps) == 1


# What becomes of a job without a work message, decided without a server


@pytest.mark.parametrize("state", [JobState.PENDING, JobState.RETRY])
def test_a_job_that_waits_is_put_back(state: JobState) -> None:
    status = given.status_in(state)
    assert decide(status, status) == PutBack()


@pytest.mark.parametrize("state", sorted(OVER))
def test_a_job_that_is_over_is_not_put_back(state: JobState) -> None:
    assert decide(given.status_in(state), given.status_in(state)) == LeaveAlone()


def test_a_job_that_moved_meanwhile_is_left_alone() -> None:
    pending = given.status_in(JobState.PENDING)
    assert decide(pending, given.status_in(JobState.ACTIVE)) == LeaveAlone()
    assert decide(pending, given.status_in(JobState.RETRY)) == LeaveAlone()
    assert decide(pending, None) == LeaveAlone()


def test_a_running_job_is_taken_only_from_a_worker_that_has_a_name() -> None:
    active = given.status_in(JobState.ACTIVE)
    assert decide(active, active) == MarkAttemptLost(given.FIRST)
    foreign = given.status_in(JobState.ACTIVE, owner=None)
    assert decide(foreign, foreign) == LeaveAlone()


@pytest.mark.parametrize(("tries", "kind"), [(1, EventKind.RETRY), (3, EventKind.DEAD)])
def test_a_lost_try_counts(tries: int, kind: EventKind) -> None:
    latest = Latest(Head(17, given.status_in(JobState.ACTIVE, tries=tries)), given.CONTEXT)
    told = plan_loss(given.REPORT, latest, given.FIRST, given.after(9))
    assert told is not None
    assert (told.kind, told.tries) == (kind, tries)


def test_nothing_is_told_of_an_attempt_that_has_the_job_no_more() -> None:
    latest = Latest(Head(17, given.status_in(JobState.ACTIVE)), given.CONTEXT)
    assert plan_loss(given.REPORT, latest, given.SECOND, given.after(9)) is None
