"""At most max_active jobs of a key run over all processes, even if processes die."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

import pytest

from tests.keys.work_lab import (
    Run,
    YardProcess,
    all_over,
    history_of,
    key_view,
    most_active,
    most_at_once,
    producer,
    start_process,
    yard_process,
)
from tests.support.example_service import Report, Task
from tests.support.facts import until
from tests.support.lab import Probe, probe
from trellis_jobs import JobRef, Queue
from trellis_jobs.embedded import EmbeddedServer
from trellis_jobs.model.events import Created
from trellis_jobs.model.states import JobState

PROCESSES = 4
LIMITS = [pytest.param("crowd", 1, id="one"), pytest.param("crowd_three", 3, id="three")]


@pytest.mark.parametrize(("name", "limit"), LIMITS)
async def test_never_more_than_the_limit_when_many_processes_create_and_work_at_once(
    server: EmbeddedServer, tmp_path: Path, name: str, limit: int
) -> None:
    async with producer(server.url) as jobs, probe(server.url) as raw:
        queue: Queue[Task, Report] = getattr(jobs, name)
        with ExitStack() as stack:
            processes = [
                stack.enter_context(
                    yard_process(server.url, tmp_path / str(number), name, creates=50)
                )
                for number in range(PROCESSES)
            ]
            for process in processes:
                await process.until_ready()
            for process in processes:
                process.begin_creating()
            await until(lambda: all(each.outcomes for each in processes), "all is created")
            outcomes = [outcome for process in processes for outcome in process.outcomes]
            refs = [queue.ref(job_id) for word, job_id in outcomes if word == "accepted"]
            await asyncio.gather(*(ref.wait(timeout=30) for ref in refs))
            await raw.until_empty()
            runs = [run for process in processes for run in process.runs]
        counts = Counter(word for word, _ in outcomes)
        assert counts.keys() <= {"accepted", "rejected"}
        assert counts.total() == PROCESSES * 50
        assert Counter(run.job_id for run in runs) == Counter(ref.id for ref in refs)
        await never_more_than(limit, raw, queue, refs, runs)
        # It was crowded enough for a limit to matter, however slow the machine is.
        assert max(most_at_once(runs).values()) >= min(limit, 2)


async def never_more_than(
    limit: int, raw: Probe, queue: Queue[Task, Report], refs: list[JobRef[Report]], runs: list[Run]
) -> None:
    assert max(most_at_once(runs).values()) <= limit
    entries = await history_of(raw, refs)
    keys = {
        entry.event.job.job_id: entry.event.concurrency.key
        for entry in entries
        if isinstance(entry.event, Created) and entry.event.concurrency is not None
    }
    for key in set(keys.values()):
        of_key = [entry for entry in entries if keys[entry.event.job.job_id] == key]
        assert most_active(of_key) <= limit
    for name in {run.key for run in runs}:
        state = await key_view(raw, queue, name).read()
        assert (state.active, state.queued) == ((), ())


class Crew:
    """Worker processes of which one at a time is killed, and replaced."""

    def __init__(self, url: str, folder: Path, chance: random.Random) -> None:
        self._url = url
        self._folder = folder
        self._chance = chance
        self.alive: list[YardProcess] = []
        self.dead: list[YardProcess] = []

    @property
    def runs(self) -> list[Run]:
        return [run for process in (*self.alive, *self.dead) for run in process.runs]

    def hire(self) -> None:
        folder = self._folder / str(len(self.alive) + len(self.dead))
        self.alive.append(start_process(self._url, folder, "brisk,brisk_three", concurrency=5))

    def kill_one(self) -> None:
        victim = self._chance.choice([each for each in self.alive if each.runs] or self.alive)
        self.alive.remove(victim)
        victim.kill()
        self.dead.append(victim)


@contextmanager
def crew_of(count: int, url: str, folder: Path, chance: random.Random) -> Iterator[Crew]:
    crew = Crew(url, folder, chance)
    try:
        for _ in range(count):
            crew.hire()
        yield crew
    finally:
        for process in crew.alive:
            process.kill()


@pytest.mark.timeout(180)
async def test_never_more_than_the_limit_though_workers_are_killed_thirty_times(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    chance = random.Random(30)  # noqa: S311 - the same jobs and victims each time
    async with producer(server.url) as jobs, probe(server.url) as raw:
        with crew_of(PROCESSES, server.url, tmp_path, chance) as crew:
            ones = await some_jobs(jobs.brisk, "one", 20, chance)
            threes = await some_jobs(jobs.brisk_three, "three", 20, chance)
            for _ in range(30):
                ones += await some_jobs(jobs.brisk, "one", 3, chance)
                threes += await some_jobs(jobs.brisk_three, "three", 6, chance)
                await until(partial(_goes_on, crew, len(crew.runs) + chance.randint(1, 6)))
                crew.kill_one()
                crew.hire()
            await until(lambda: all_over(raw, ones + threes), "every job ends", deadline=60)
            await raw.until_empty()
            runs = crew.runs
        for limit, kind, queue, refs in (
            (1, "one", jobs.brisk, ones),
            (3, "three", jobs.brisk_three, threes),
        ):
            of_kind = [run for run in runs if run.key.startswith(kind)]
            await never_more_than(limit, raw, queue, refs, of_kind)
        ends = {(await ref.get()).state for ref in ones + threes}
        assert ends <= {JobState.COMPLETED, JobState.STALE}


def _goes_on(crew: Crew, expected: int) -> bool:
    return len(crew.runs) >= expected


async def some_jobs(
    queue: Queue[Task, Report], kind: str, count: int, chance: random.Random
) -> list[JobRef[Report]]:
    errands = [
        Task(key=f"{kind}-{chance.randrange(5)}", do="nap", seconds=chance.uniform(0, 0.05))
        for _ in range(count)
    ]
    return await asyncio.gather(*(queue.create(errand) for errand in errands))
