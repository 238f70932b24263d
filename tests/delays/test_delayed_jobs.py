"""A delayed job is in the log at once, in no work queue until its time, and runs once after it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from jobs_admin.config import AdminConfig
from jobs_admin.daemon import serving
from tests.delays.delay_lab import A_DAY, SOON, ledger, producer, worker
from tests.support.example_service import Task
from trellis_jobs import JobRef
from trellis_jobs.contract.topology import WORK
from trellis_jobs.embedded import EmbeddedServer
from trellis_jobs.environment import utc_now
from trellis_jobs.errors import DeadlineInvalid, JobExists, RunAtInvalid
from trellis_jobs.jetstream.client import api
from trellis_jobs.jetstream.client.pull_consumer import PullEnd, open_pull_consumer
from trellis_jobs.jetstream.client.stored_message import moment_of
from trellis_jobs.model import subjects
from trellis_jobs.model.events import EventKind
from trellis_jobs.model.states import JobState


async def test_a_delayed_job_runs_after_its_time_and_not_before(server: EmbeddedServer) -> None:
    async with worker(server.url, "work") as bench, ledger(server.url) as books:
        ref = await bench.jobs.work.create(Task(text="late"), delay=SOON)
        assert (await ref.get()).state is JobState.SCHEDULED
        assert await books.raw.work_messages() == 0
        assert (await ref.wait(timeout=20)).text == "late"
        await books.ran_once_and_not_early(ref)
        assert await books.kinds(ref) == ["scheduled", "created", "started", "completed"]
        await books.until_no_alarms()


@pytest.mark.parametrize("delay", [0.05, 0.6, 1.0, 1.25, 2.5])
async def test_no_delay_is_too_short_to_be_kept(server: EmbeddedServer, delay: float) -> None:
    """Around a second, the alarm is published at once, or kept by the server."""
    async with worker(server.url, "work") as bench, ledger(server.url) as books:
        refs = [await bench.jobs.work.create(Task(), delay=delay) for _ in range(20)]
        await books.until_over(refs)
        await books.ran_once_and_not_early(*refs)


async def test_many_delayed_jobs_of_one_call_run_once_each(server: EmbeddedServer) -> None:
    async with worker(server.url, "work") as bench, ledger(server.url) as books:
        refs = await bench.jobs.work.create_many([Task() for _ in range(300)], delay=SOON)
        await books.until_over(refs)
        await books.ran_once_and_not_early(*refs)
        assert await books.count(EventKind.CREATED) == 300


async def test_a_foreign_worker_sees_nothing_of_it_before_its_time(server: EmbeddedServer) -> None:
    """Another runtime with a consumer of its own on the work queue, and no idea of delays."""
    async with producer(server.url) as jobs, ledger(server.url) as books:
        connection = books.raw.connection
        name, filter_ = "later-shared", subjects.work_of_type("later", "shared")
        config = {"name": name, "durable_name": name, "ack_policy": "explicit"}
        body = {"stream_name": WORK, "config": {**config, "filter_subject": filter_}}
        await api.request(connection, f"CONSUMER.CREATE.{WORK}.{name}.{filter_}", body)
        ref = await jobs.shared.create(Task(), delay=SOON)
        run_at = await planned(ref)
        async with (
            open_pull_consumer(connection, WORK, name) as foreign,
            worker(server.url, "work"),  # of the same service, with another queue
        ):
            await foreign.request(1, wait=True)
            received = await foreign.next()
            assert not isinstance(received, PullEnd)
            message, info = received
            assert message.subject == subjects.work(ref.address)
            assert moment_of(info.stored_ns) >= run_at
        assert await books.kinds(ref) == ["scheduled", "created"]


async def planned(ref: JobRef[object]) -> datetime:
    run_at = (await ref.get()).run_at
    assert run_at is not None
    return run_at


async def test_a_time_in_the_past_means_at_once(server: EmbeddedServer) -> None:
    async with worker(server.url, "work") as bench, ledger(server.url) as books:
        past = utc_now() - timedelta(hours=1)
        ref = await bench.jobs.work.create(Task(), run_at=past)
        await ref.wait(timeout=20)
        assert await books.kinds(ref) == ["created", "started", "completed"]
        assert await books.alarms() == 0


async def test_a_job_of_the_year_2300_waits(server: EmbeddedServer) -> None:
    """Servers publish such an alarm at once if it is set for its real time."""
    async with worker(server.url, "work") as bench, ledger(server.url) as books:
        far = await bench.jobs.work.create(Task(), run_at=datetime(2300, 1, 1, tzinfo=UTC))
        farther = await bench.jobs.work.create(
            Task(), run_at=datetime(8999, 12, 31, 23, 59, 59, tzinfo=UTC)
        )
        near = await bench.jobs.work.create(Task(), delay=SOON)
        await near.wait(timeout=20)
        for ref in (far, farther):
            assert await books.kinds(ref) == ["scheduled"]
        assert int((await books.due_consumer())["delivered"]["consumer_seq"]) == 1
        assert await books.alarms() == 2


async def test_a_time_after_which_python_knows_no_deadline_is_refused(
    server: EmbeddedServer,
) -> None:
    async with producer(server.url) as jobs:
        last = datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)
        with pytest.raises(RunAtInvalid):
            await jobs.brief.create(Task(), run_at=last)
        with pytest.raises(RunAtInvalid):
            await jobs.brief.create(Task(), delay=timedelta(days=365 * 7500))
        ref = await jobs.brief.create(Task(), delay=A_DAY)
        with pytest.raises(RunAtInvalid):
            await ref.reschedule(run_at=last)


async def test_a_deadline_before_its_time_is_refused_and_leaves_nothing(
    server: EmbeddedServer,
) -> None:
    async with producer(server.url) as jobs, ledger(server.url) as books:
        for queue in (jobs.work, jobs.brief):
            with pytest.raises(DeadlineInvalid):
                await queue.create(Task(), delay=60, deadline=30)
        assert await books.alarms() == 0
        assert await books.count(EventKind.SCHEDULED) == 0


async def test_the_default_deadline_counts_from_its_time_and_moves_with_it(
    server: EmbeddedServer,
) -> None:
    """Also when the job was released and waits for its next try."""
    hour = timedelta(hours=1)
    async with worker(server.url, "brief") as bench, ledger(server.url) as books:
        ref = await bench.jobs.brief.create(Task(do="later", seconds=3600), delay=A_DAY)
        assert (await ref.get()).deadline == await planned(ref) + hour
        await ref.reschedule(delay=2 * A_DAY)
        assert (await ref.get()).deadline == await planned(ref) + hour
        await ref.run_now()
        await books.until_kind(ref, EventKind.RETRY)
        await ref.reschedule(delay=3 * A_DAY)
        moved = await ref.get()
        assert moved.tries == 1
        assert moved.deadline == await planned(ref) + hour


async def test_a_chosen_deadline_does_not_move(server: EmbeddedServer) -> None:
    async with producer(server.url) as jobs:
        ref = await jobs.brief.create(Task(), delay=60, deadline=120)
        before = await ref.get()
        with pytest.raises(DeadlineInvalid):
            await ref.reschedule(delay=180)
        await ref.reschedule(delay=90)
        assert (await ref.get()).deadline == before.deadline


async def test_a_job_that_no_worker_released_before_its_deadline_expires(
    server: EmbeddedServer,
) -> None:
    async with ledger(server.url) as books:
        async with producer(server.url) as jobs:
            ref = await jobs.work.create(Task(), delay=0.3, deadline=0.6)
            deadline = (await ref.get()).deadline
            assert deadline is not None
            await books.until_time(deadline)
        async with worker(server.url, "work") as bench:
            stored = await books.until_kind(bench.jobs.work.ref(ref.id), EventKind.EXPIRED)
        assert [each.kind.value for each in stored] == ["scheduled", "created", "expired"]


async def test_the_admin_runtime_expires_a_job_that_no_worker_released_in_time(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    often = timedelta(seconds=0.1)
    config = AdminConfig(
        nats=server.url, path=tmp_path / "jobs.sqlite", provision=True, janitor_interval=often
    )
    async with ledger(server.url) as books, producer(server.url) as jobs:
        ref = await jobs.work.create(Task(), delay=0.2, deadline=0.4)
        async with serving(config):
            await books.until_kind(ref, EventKind.EXPIRED)
        async with worker(server.url, "work") as bench:
            await books.until_no_alarms()
            assert bench.begun == []
        assert await books.kinds(ref) == ["scheduled", "expired"]


async def test_a_delayed_job_has_its_id_from_the_first_moment(server: EmbeddedServer) -> None:
    async with producer(server.url) as jobs, ledger(server.url) as books:
        await jobs.work.create(Task(), job_id="X", delay=A_DAY)
        with pytest.raises(JobExists):
            await jobs.work.create(Task(), job_id="X", delay=A_DAY)
        with pytest.raises(JobExists):
            await jobs.work.create(Task(), job_id="X")
        assert await books.alarms() == 1
