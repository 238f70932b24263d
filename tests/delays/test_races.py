"""A release, a cancellation, a move and run_now at the same moment: the log accepts one of them."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from random import Random

import pytest

from tests.delays.delay_lab import (
    A_DAY,
    SOON,
    Ledger,
    at_the_same_time,
    check_never_early,
    ledger,
    producer,
    worker,
)
from tests.support.example_service import Report, Task
from tests.support.facts import until
from trellis_jobs import JobRef, Queue
from trellis_jobs.embedded import EmbeddedServer
from trellis_jobs.errors import JobExists, JobIsOver, JobNotWaiting
from trellis_jobs.model.events import EventKind
from trellis_jobs.model.job import Applied, Job, reduce
from trellis_jobs.model.states import OVER, JobState

JOBS = 60
ROUNDS = 15
# What an action may be told when another one came first.
TOO_LATE = (JobNotWaiting, JobIsOver)
Action = Callable[[JobRef[Report]], Awaitable[None]]


async def cancel(ref: JobRef[Report]) -> None:
    await ref.cancel("raced")


async def run_now(ref: JobRef[Report]) -> None:
    await ref.run_now()


async def earlier(ref: JobRef[Report]) -> None:
    await ref.reschedule(delay=0.2)


async def later(ref: JobRef[Report]) -> None:
    await ref.reschedule(delay=1.6)


ACTIONS: tuple[Action, ...] = (cancel, run_now, earlier, later)


async def checked(books: Ledger, ref: JobRef[Report]) -> Job:
    """The job, whose events are all legal, and none of them early."""
    job: Job | None = None
    for entry in await books.raw.events.history(ref.address):
        reduced = reduce(job, entry)
        assert isinstance(reduced, Applied), (ref, entry.event.kind, reduced)
        job = reduced.job
    check_never_early(await books.stored(ref))
    assert job is not None
    return job


async def until_ended(refs: list[JobRef[Report]]) -> None:
    async def all_over() -> bool:
        return all([(await ref.get()).state in OVER for ref in refs])

    await until(all_over, "all jobs are over", deadline=30)


@pytest.mark.parametrize("queue", ["work", "waiting"])
async def test_whatever_comes_at_the_moment_of_the_release_there_is_one_outcome(
    server: EmbeddedServer, queue: str
) -> None:
    """Two worker processes have the alarms; the actions come just before and after the release."""
    chance = Random(17)  # noqa: S311 - the same every time

    async def race(jobs: Queue[Task, Report], number: int) -> tuple[JobRef[Report], list[object]]:
        ref = await jobs.create(Task(key=f"key-{number}"), delay=0.4)
        actions = chance.sample(ACTIONS, k=chance.randint(1, len(ACTIONS)))
        await asyncio.sleep(0.4 + chance.uniform(-0.03, 0.02))  # where the race is, not a wait
        results = await at_the_same_time(*(action(ref) for action in actions))
        assert all(result is None or isinstance(result, TOO_LATE) for result in results), results
        cancelled = [results[actions.index(cancel)]] if cancel in actions else []
        return ref, cancelled

    async with (
        worker(server.url, queue) as bench,
        worker(server.url, queue) as other,
        producer(server.url) as jobs,
        ledger(server.url) as books,
    ):
        races = await asyncio.gather(*(race(getattr(jobs, queue), n) for n in range(JOBS)))
        await until_ended([ref for ref, _ in races])
        begun = Counter([*bench.begun, *other.begun])
        for ref, cancelled in races:
            job = await checked(books, ref)
            started = [each for each in await books.kinds(ref) if each == "started"]
            assert job.state in {JobState.COMPLETED, JobState.CANCELLED}
            assert (job.state is JobState.CANCELLED) == (cancelled == [None])
            assert len(started) <= 1
            assert begun[ref.id] == len(started)
        await books.until_no_alarms()


async def test_an_id_that_two_create_at_once_keeps_the_earlier_alarm(
    server: EmbeddedServer,
) -> None:
    """The log accepts one of them. Whichever it is, the job must not be late for the other."""
    async with (
        producer(server.url) as one,
        producer(server.url) as two,
        ledger(server.url) as books,
        worker(server.url, "work"),
    ):
        won = Counter[str]()
        refs = []
        for number in range(ROUNDS):
            delays = (SOON, A_DAY) if number % 2 else (A_DAY, SOON)
            results = await at_the_same_time(
                *(
                    jobs.work.create(Task(), job_id=f"J{number}", delay=delay)
                    for jobs, delay in zip((one, two), delays, strict=True)
                )
            )
            assert sum(isinstance(result, JobExists) for result in results) == 1
            ref = one.work.ref(f"J{number}")
            snapshot = await ref.get()
            assert snapshot.run_at is not None
            is_soon = (snapshot.run_at - snapshot.created_at).total_seconds() < A_DAY / 2
            won["soon" if is_soon else "late"] += 1
            refs += [ref] if is_soon else []
        await until_ended(refs)
        await books.ran_once_and_not_early(*refs)
        assert set(won) == {"soon", "late"}, "both kinds should have won once"


async def test_two_processes_with_the_same_alarm_release_the_job_once(
    server: EmbeddedServer,
) -> None:
    async with (
        worker(server.url, "work") as bench,
        worker(server.url, "work") as other,
        ledger(server.url) as books,
    ):
        refs = [await bench.jobs.work.create(Task(), delay=0.8) for _ in range(JOBS)]
        for ref in refs * 3:
            await books.repeat_alarm(ref.address)
        await until_ended(refs)
        await books.ran_once_and_not_early(*refs)
        assert await books.count(EventKind.CREATED) == JOBS
        assert Counter([*bench.begun, *other.begun]) == Counter(ref.id for ref in refs)
        await books.until_no_alarms()
