"""Everything that a service does works with the rights that are printed for it, and no others."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.permissions.installation import Installation
from tests.permissions.services import Chore, household, staff
from tests.support.facts import until
from tests.support.fork_server import CLI, fork
from tests.support.lab import until_state
from trellis_jobs import JobCancelled, QueueFull
from trellis_jobs.model.events import EventKind
from trellis_jobs.model.states import JobState


async def test_jobs_are_created_worked_on_retried_told_of_and_read(
    installation: Installation,
) -> None:
    async with staff(installation.access("house"), "work") as at_work:
        again = await at_work.jobs.work.create(Chore(do="fail once"))
        assert await again.wait(timeout=10) == "try 2"
        talkative = await at_work.jobs.work.create(Chore(do="tell"))
        states = []
        async for job in talkative.watch():
            states.append(job.state)
            if job.progress is not None and job.logs:
                at_work.go.set()
        assert (states[0], states[-1]) == (JobState.PENDING, JobState.COMPLETED)
        assert EventKind.LOGGED in {event.kind for event in await talkative.events()}
        assert (await again.get()).state is JobState.COMPLETED
        many = await at_work.jobs.work.create_many([Chore() for _ in range(20)])
        assert [await each.wait(timeout=10) for each in many] == ["try 1"] * 20


async def test_a_running_job_is_cancelled_by_another_process_of_its_service(
    installation: Installation,
) -> None:
    mine = installation.access("house")
    async with staff(mine, "work") as at_work, household(mine) as elsewhere:
        ref = await elsewhere.work.create(Chore(do="wait"))
        await at_work.until_running(ref)
        await ref.cancel("enough")
        with pytest.raises(JobCancelled):
            await ref.wait(timeout=10)
        await until(lambda: at_work.told_to_stop == [ref.id], "the handler is told")


async def test_jobs_of_a_key_wait_for_each_other_and_too_many_are_refused(
    installation: Installation,
) -> None:
    mine = installation.access("house")
    async with staff(mine, "keyed") as at_work, household(mine) as elsewhere:
        room = f"kitchen-{installation.shape}"
        first = await elsewhere.keyed.create(Chore(do="wait", room=room))
        await at_work.until_running(first)
        second = await at_work.jobs.keyed.create(Chore(room=room))
        with pytest.raises(QueueFull):
            await elsewhere.keyed.create(Chore(room=room))
        await second.cancel()
        third = await elsewhere.keyed.create(Chore(room=room))
        at_work.go.set()
        assert await third.wait(timeout=10) == "try 1"
        assert await first.wait(timeout=10) == "try 1"


@contextmanager
def worker_process(installation: Installation, printed: Path) -> Iterator[None]:
    with printed.open("wb") as output:
        arguments = ("worker", "tests.permissions.services:house", "--queues", "work")
        worker = fork(CLI, *arguments, stdout=output, env=installation.environment("house"))
    try:
        yield
    finally:
        worker.kill()
        worker.wait()


async def test_a_killed_workers_job_is_taken_over(
    installation: Installation, tmp_path: Path
) -> None:
    """The first worker is the command, with what it is told in its environment."""
    mine = installation.access("house")
    async with household(mine) as jobs:
        ref = await jobs.work.create(Chore())
        with worker_process(installation, tmp_path / "said"):
            await until_state(ref, JobState.ACTIVE)
        async with staff(mine, "work"):
            assert await ref.wait(timeout=10) == "try 2"


async def test_a_worker_ends_when_nothing_is_left(installation: Installation) -> None:
    burst = ("worker", "tests.permissions.services:house", "--queues", "work", "--burst")
    ended = installation.command("house", *burst)
    assert ended.code == 0, ended.err


async def test_none_of_that_is_refused_by_the_server(installation: Installation) -> None:
    """It is refused nothing but the question whether it may provision."""
    before = installation.violations("house")
    mine = installation.access("house")
    async with staff(mine, "work", "keyed") as at_work, household(mine) as elsewhere:
        for ref in [
            await at_work.jobs.work.create(Chore(do="fail once")),
            await elsewhere.keyed.create(Chore(room=f"porch-{installation.shape}")),
        ]:
            await ref.wait(timeout=10)
            await ref.get()
    assert installation.violations("house") == before
