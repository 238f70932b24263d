"""Cancel a delayed job, move it to another time, or run it now; also one that waits otherwise."""

from __future__ import annotations

from contextlib import suppress

import pytest

from tests.delays.delay_lab import A_DAY, SOON, ledger, producer, worker
from tests.support.example_service import Report, Task, TaskWorker
from tests.support.lab import until_state
from trellis_jobs import JobCancelled, JobRef
from trellis_jobs.embedded import EmbeddedServer
from trellis_jobs.errors import JobIsOver, JobNotFound, JobNotWaiting
from trellis_jobs.model.states import JobState

# A plain queue, and one whose jobs have keys.
QUEUES = ("patient", "stubborn")


async def in_retry(bench: TaskWorker, queue: str) -> JobRef[Report]:
    """A job that waits for its second try, for an hour."""
    ref: JobRef[Report] = await getattr(bench.jobs, queue).create(Task(do="fail once"))
    await until_state(ref, JobState.RETRY)
    return ref


@pytest.mark.parametrize("queue", QUEUES)
async def test_a_cancelled_job_never_runs_and_leaves_no_alarm(
    server: EmbeddedServer, queue: str
) -> None:
    async with worker(server.url) as bench, ledger(server.url) as books:
        ref = await getattr(bench.jobs, queue).create(Task(), delay=SOON)
        after = await getattr(bench.jobs, queue).create(Task(), delay=SOON + 0.5)
        await ref.cancel("not needed")
        await ref.cancel()
        with pytest.raises(JobCancelled):
            await ref.wait(timeout=20)
        await after.wait(timeout=20)
        assert await books.kinds(ref) == ["scheduled", "cancelled"]
        await refuses_to_move(ref)
        await books.until_no_alarms()
        assert ref.id not in bench.begun


@pytest.mark.parametrize("queue", QUEUES)
async def test_a_job_that_is_moved_to_an_earlier_time_runs_then(
    server: EmbeddedServer, queue: str
) -> None:
    async with worker(server.url) as bench, ledger(server.url) as books:
        ref = await getattr(bench.jobs, queue).create(Task(), delay=A_DAY)
        await ref.reschedule(delay=SOON, reason="the bank opens early")
        await ref.wait(timeout=20)
        await books.ran_once_and_not_early(ref)
        await books.until_no_alarms()


@pytest.mark.parametrize("queue", QUEUES)
async def test_a_job_that_is_moved_to_a_later_time_does_not_run_before(
    server: EmbeddedServer, queue: str
) -> None:
    """The alarm of the first time comes, and finds that the job was moved."""
    async with worker(server.url) as bench, ledger(server.url) as books:
        ref = await getattr(bench.jobs, queue).create(Task(), delay=SOON)
        await ref.reschedule(delay=3 * SOON)
        await ref.wait(timeout=20)
        await books.ran_once_and_not_early(ref)
        assert (await books.kinds(ref)).count("created") == 1
        await books.until_no_alarms()


@pytest.mark.parametrize("queue", QUEUES)
async def test_run_now_releases_a_job_of_tomorrow(server: EmbeddedServer, queue: str) -> None:
    async with worker(server.url) as bench, ledger(server.url) as books:
        ref = await getattr(bench.jobs, queue).create(Task(), delay=A_DAY)
        await ref.run_now("asked for")
        await ref.wait(timeout=20)
        await books.ran_once_and_not_early(ref)
        kinds = await books.kinds(ref)
        assert kinds == ["scheduled", "scheduled", "created", "started", "completed"]


@pytest.mark.parametrize("queue", QUEUES)
async def test_run_now_lets_a_job_try_again_at_once_and_keeps_its_tries(
    server: EmbeddedServer, queue: str
) -> None:
    async with worker(server.url) as bench, ledger(server.url) as books:
        ref = await in_retry(bench, queue)
        await ref.run_now()
        assert (await ref.wait(timeout=20)).tries == 2
        await books.ran_once_and_not_early(ref, tries=2)


@pytest.mark.parametrize("queue", QUEUES)
async def test_a_job_that_waits_for_its_next_try_can_be_moved(
    server: EmbeddedServer, queue: str
) -> None:
    async with worker(server.url) as bench, ledger(server.url) as books:
        ref = await in_retry(bench, queue)
        await ref.reschedule(delay=SOON)
        assert (await ref.get()).state is JobState.SCHEDULED
        assert (await ref.wait(timeout=20)).tries == 2
        await books.ran_once_and_not_early(ref, tries=2)


@pytest.mark.parametrize("queue", QUEUES)
async def test_a_job_that_waits_for_a_worker_can_be_moved(
    server: EmbeddedServer, queue: str
) -> None:
    """Its work message is dropped by the worker that gets it, and the job waits for its time."""
    async with ledger(server.url) as books, producer(server.url) as jobs:
        ref = await getattr(jobs, queue).create(Task())
        await books.raw.until_queued(1)
        await ref.reschedule(delay=2 * SOON)
        async with worker(server.url):
            await books.raw.until_empty()
            assert await books.kinds(ref) == ["created", "scheduled"]
            await ref.wait(timeout=20)
        await books.ran_once_and_not_early(ref)


@pytest.mark.parametrize("queue", QUEUES)
async def test_run_now_leaves_a_job_that_may_run_already_as_it_is(
    server: EmbeddedServer, queue: str
) -> None:
    async with producer(server.url) as jobs, ledger(server.url) as books:
        ref = await getattr(jobs, queue).create(Task())
        await ref.run_now()
        assert await books.kinds(ref) == ["created"]


async def refuses_to_move(ref: JobRef[Report]) -> None:
    with pytest.raises(JobNotWaiting):
        await ref.run_now()
    with pytest.raises(JobNotWaiting):
        await ref.reschedule(delay=1)


async def test_a_job_that_runs_or_has_ended_cannot_be_moved(server: EmbeddedServer) -> None:
    async with worker(server.url, "work") as bench, ledger(server.url) as books:
        ref = await bench.jobs.work.create(Task(do="wait"))
        await bench.until_running(ref)
        await refuses_to_move(ref)
        bench.let_go(ref)
        await ref.wait(timeout=20)
        await refuses_to_move(ref)
        assert await books.kinds(ref) == ["created", "started", "completed"]
        with pytest.raises(JobNotFound):
            await bench.jobs.work.ref("missing").run_now()


async def test_on_a_shared_queue_a_job_is_moved_only_while_it_is_scheduled(
    server: EmbeddedServer,
) -> None:
    """Another runtime starts a job whose work message it has, whatever the log says since."""
    async with worker(server.url, "shared") as bench, ledger(server.url) as books:
        delayed = await bench.jobs.shared.create(Task(), delay=A_DAY)
        await delayed.reschedule(delay=SOON)
        await delayed.wait(timeout=20)
        await books.ran_once_and_not_early(delayed)
        failed = await bench.jobs.shared.create(Task(do="later", seconds=3600))
        await until_state(failed, JobState.RETRY)
        await refuses_to_move(failed)
    async with producer(server.url) as jobs:
        pending = await jobs.shared.create(Task())
        with pytest.raises(JobNotWaiting, match="shared with other runtimes"):
            await pending.reschedule(delay=1)
        await pending.run_now()
        assert (await pending.get()).state is JobState.PENDING


async def test_a_job_can_be_moved_again_and_again(server: EmbeddedServer) -> None:
    """Each move leaves an alarm that is not later than the log says, whatever the order."""
    delays = [5, A_DAY, 2, 40, 1.2, 3600, 0.2, 9, 2 * SOON]
    async with worker(server.url, "work") as bench, ledger(server.url) as books:
        refs = [await bench.jobs.work.create(Task(), delay=delays[n]) for n in range(4)]
        for delay in delays:
            for ref in refs:
                with suppress(JobNotWaiting, JobIsOver):
                    await ref.reschedule(delay=delay)
        await books.until_over(refs)
        await books.ran_once_and_not_early(*refs)
