"""A delayed job is admitted to its key when its time comes. What if the key is full then?"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.admin.admin_lab import admin_lab
from tests.delays.delay_lab import (
    A_DAY,
    KEYED,
    SERVICE,
    SOON,
    Ledger,
    at_the_same_time,
    ledger,
    producer,
    worker,
)
from tests.given import waiting as waiting_entry
from tests.keys.work_lab import KeyView, lease_of
from tests.support.example_service import Report, Task, TaskWorker
from tests.support.facts import until
from tests.support.lab import until_state
from trellis_jobs import JobRef, JobSkipped, Queue
from trellis_jobs.contract.topology import KEYS
from trellis_jobs.embedded import EmbeddedServer
from trellis_jobs.environment import utc_now
from trellis_jobs.jetstream.client import api
from trellis_jobs.model.events import EventKind
from trellis_jobs.model.keys.slots import enqueue
from trellis_jobs.model.keys.state import KeyAddress, KeyState
from trellis_jobs.model.states import JobState

MANY = 12


def key_of(books: Ledger, queue: Queue[Task, Report]) -> KeyView:
    policy = lease_of(queue)
    resolved = policy.template.resolve({"key": "acme"})
    address = KeyAddress(SERVICE, queue.type.name, resolved.hash)
    empty = KeyState(
        address=address, display=resolved.display, max_active=1, max_queued=policy.max_queued
    )
    return KeyView(books.raw, empty)


async def full(bench: TaskWorker, queue: Queue[Task, Report]) -> tuple[JobRef[Report], ...]:
    """One job of the key runs until it is let go, and another waits for it."""
    running = await queue.create(Task(do="wait"))
    await bench.until_running(running)
    return running, await queue.create(Task(do="wait"))


@pytest.mark.parametrize("name", KEYED)
async def test_if_the_key_is_free_the_job_runs(server: EmbeddedServer, name: str) -> None:
    async with worker(server.url) as bench, ledger(server.url) as books:
        queue = getattr(bench.jobs, name)
        ref = await queue.create(Task(), delay=SOON)
        assert (await key_of(books, queue).read()).queued == ()
        await ref.wait(timeout=20)
        await books.ran_once_and_not_early(ref)
        await key_of(books, queue).until_empty()


async def test_by_default_the_job_waits_until_the_key_is_free(server: EmbeddedServer) -> None:
    async with worker(server.url) as bench, ledger(server.url) as books:
        running, queued = await full(bench, bench.jobs.waiting)
        ref = await bench.jobs.waiting.create(Task(), delay=SOON)
        await books.until_kind(ref, EventKind.CREATED)
        assert await books.kinds(ref) == ["scheduled", "created"]
        bench.let_go(running, queued)
        await ref.wait(timeout=20)
        await books.ran_once_and_not_early(running, queued, ref)
        await key_of(books, bench.jobs.waiting).until_empty()


@pytest.mark.parametrize("name", ["rejecting", "merging"])
async def test_by_the_policy_of_the_queue_it_is_skipped(server: EmbeddedServer, name: str) -> None:
    async with worker(server.url) as bench, ledger(server.url) as books:
        queue = getattr(bench.jobs, name)
        running, queued = await full(bench, queue)
        ref = await queue.create(Task(), delay=SOON)
        with pytest.raises(JobSkipped, match="its key was full when its time came"):
            await ref.wait(timeout=20)
        bench.let_go(running, queued)
        await books.until_over([running, queued])
        await books.ran_once_and_not_early(running, queued)
        assert await books.kinds(ref) == ["scheduled", "skipped"]
        await key_of(books, queue).until_empty()
        await books.until_no_alarms()


async def test_by_the_policy_of_the_queue_it_replaces_the_oldest(server: EmbeddedServer) -> None:
    async with worker(server.url) as bench, ledger(server.url) as books:
        running, queued = await full(bench, bench.jobs.newest)
        ref = await bench.jobs.newest.create(Task(), delay=SOON)
        with pytest.raises(JobSkipped, match="replaced it"):
            await queued.wait(timeout=20)
        bench.let_go(running)
        await ref.wait(timeout=20)
        await books.ran_once_and_not_early(running, ref)
        await key_of(books, bench.jobs.newest).until_empty()


@pytest.mark.parametrize("name", KEYED)
async def test_of_many_jobs_of_one_key_that_are_due_at_once_one_runs_at_a_time(
    server: EmbeddedServer, name: str
) -> None:
    """Two worker processes have their alarms. Each job runs once, or is skipped by the policy."""
    async with (
        worker(server.url) as bench,
        worker(server.url) as other,
        ledger(server.url) as books,
    ):
        queue = getattr(bench.jobs, name)
        refs = await queue.create_many([Task(do="nap", seconds=0.05)] * MANY, delay=SOON)

        async def all_over() -> bool:
            states = [(await ref.get()).state for ref in refs]
            return all(state in {JobState.COMPLETED, JobState.SKIPPED} for state in states)

        await until(all_over, "all jobs are over")
        ran = [ref for ref in refs if (await ref.get()).state is JobState.COMPLETED]
        assert ran
        await books.ran_once_and_not_early(*ran)
        assert sorted([*bench.begun, *other.begun]) == sorted(ref.id for ref in ran)
        if name == "waiting":
            assert len(ran) == MANY
        await key_of(books, queue).until_empty()
        await books.until_no_alarms()


@pytest.mark.parametrize("name", KEYED)
async def test_an_alarm_that_comes_again_and_again_changes_nothing_in_the_key(
    server: EmbeddedServer, name: str
) -> None:
    async with worker(server.url) as bench, ledger(server.url) as books:
        queue = getattr(bench.jobs, name)
        over = await queue.create(Task(), delay=0.2)
        await over.wait(timeout=20)
        await key_of(books, queue).until_empty()
        before = await writes_to_keys(books)
        await repeat_alarm(books, over)
        assert await writes_to_keys(books) == before
        running = await queue.create(Task(do="wait"), delay=0.2)
        await bench.until_running(running)
        await repeat_alarm(books, running)
        state = await key_of(books, queue).read()
        assert ([slot.job_id for slot in state.active], state.queued) == ([running.id], ())
        bench.let_go(running)
        await running.wait(timeout=20)
        await books.ran_once_and_not_early(over, running)
        await key_of(books, queue).until_empty()


async def repeat_alarm(books: Ledger, ref: JobRef[Report]) -> None:
    await at_the_same_time(*(books.repeat_alarm(ref.address) for _ in range(20)))
    await books.until_no_alarms()


async def writes_to_keys(books: Ledger) -> int:
    info = await api.request(books.raw.connection, f"STREAM.INFO.{KEYS}")
    return int(info["state"]["last_seq"])


async def test_a_job_that_was_moved_is_not_replaced_although_it_left_its_place_behind(
    server: EmbeddedServer,
) -> None:
    """As after a crash between the event of the move and the removal from the key."""
    async with worker(server.url) as bench, ledger(server.url) as books:
        queue = bench.jobs.newest
        running, moved = await full(bench, queue)
        await moved.reschedule(delay=A_DAY)
        key = key_of(books, queue)
        place = waiting_entry(moved.id, created_at=utc_now())
        await key.change(lambda state: enqueue(state, place))
        ref = await queue.create(Task())
        assert (await moved.get()).state is JobState.SCHEDULED
        bench.let_go(running)
        await ref.wait(timeout=20)
        await moved.cancel()
        await key.until_empty()


async def test_a_job_that_is_moved_gives_its_place_to_others(server: EmbeddedServer) -> None:
    async with producer(server.url) as jobs, ledger(server.url) as books:
        first, second = [await jobs.rejecting.create(Task()) for _ in range(2)]
        await first.reschedule(delay=A_DAY)
        third = await jobs.rejecting.create(Task())
        state = await key_of(books, jobs.rejecting).read()
        assert [place.job_id for place in state.queued] == [second.id, third.id]


@pytest.mark.parametrize("who", ["the service", "an operator"])
async def test_a_job_that_tries_again_at_once_keeps_its_place(
    server: EmbeddedServer, tmp_path: Path, who: str
) -> None:
    async with (
        worker(server.url) as bench,
        ledger(server.url) as books,
        admin_lab(server.url, tmp_path) as lab,
    ):
        queue = bench.jobs.stubborn
        for _ in range(10):
            ref = await queue.create(Task(do="wait, then fail once"))
            await bench.until_running(ref)
            blocker = await queue.create(Task(do="wait"))
            bench.let_go(ref)
            await until_state(ref, JobState.RETRY)
            await bench.until_running(blocker)
            if who == "the service":
                await ref.run_now()
            else:
                await lab.client.run_now(ref.address)
            await until_state(ref, JobState.PENDING)
            state = await key_of(books, queue).read()
            assert [place.job_id for place in state.queued] == [ref.id]
            bench.let_go(blocker)
            assert (await ref.wait(timeout=20)).tries == 2
            await blocker.wait(timeout=20)
            await key_of(books, queue).until_empty()
