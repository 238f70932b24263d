"""Counts that are compared never accuse a job wrongly, however far the projection is behind.

Reproduction: 200,000 trivial jobs, two workers, an admin runtime at its defaults. It took 155 s
instead of 52 s from the moment of "more jobs than work: every job is looked at jobs=33811": the
projection lagged, and the server was asked about every job.
"""

from __future__ import annotations

import json
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.traffic import MONITORED, announced
from jobs_admin.gather_limited import MAX_CONCURRENT
from jobs_admin.maintenance.missing_work import missing_messages
from jobs_admin.maintenance.pace import Pace
from jobs_admin.maintenance.reconciliation import PAGE_SIZE
from jobs_admin.projection.projector import Projector
from jobs_admin.reads.readers import Readers
from tests.admin.test_lost_work import reconciliation
from tests.admin.upkeep_lab import producer, purge, until_sourced, worker
from tests.support.example_service import Task
from tests.support.lab import Probe, probe
from trellis_jobs.embedded import EmbeddedServer
from trellis_jobs.jetstream.log.feed import LogFeed
from trellis_jobs.jetstream.work.messages import WorkExtent
from trellis_jobs.model import subjects


class World:
    """A log, a work queue that is filled from it in order, and what happens to their jobs."""

    def __init__(self) -> None:
        self.log: list[tuple[str, int]] = []
        self.jobs = 0
        self.sourced = 0
        self.queue: set[int] = set()
        self.lost: set[int] = set()

    def do(self, step: str, choice: int) -> None:
        getattr(self, step)(choice)

    def create(self, _: int) -> None:
        self.log.append(("created", self.jobs))
        self.jobs += 1

    def source(self, _: int) -> None:
        if self.sourced < self.jobs:
            self.queue.add(self.sourced)
            self.sourced += 1

    def end(self, choice: int) -> None:
        live = sorted(self.live(len(self.log)))
        if live:
            self.log.append(("ended", live[choice % len(live)]))

    def acknowledge(self, choice: int) -> None:
        over = sorted(self.queue - self.live(len(self.log)))
        if over:
            self.queue.remove(over[choice % len(over)])

    def lose(self, choice: int) -> None:
        if self.queue:
            lost = sorted(self.queue)[choice % len(self.queue)]
            self.queue.remove(lost)
            self.lost.add(lost)

    def live(self, position: int) -> set[int]:
        """The jobs that are not over for a projection that has read this much of the log."""
        read = self.log[:position]
        ended = {job for kind, job in read if kind == "ended"}
        return {job for kind, job in read if kind == "created"} - ended

    def resting(self, position: int, since: int) -> set[int]:
        """Those of them that have no event after a place of the log."""
        moved = {job for _, job in self.log[since:position]}
        return self.live(position) - moved

    def extent(self) -> WorkExtent:
        return WorkExtent(len(self.queue), self.jobs - self.sourced)


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["create", "create", "source", "source", "end", "acknowledge", "lose"]),
        st.integers(0, 1_000),
    ),
    max_size=60,
)


@given(before=STEPS, after=STEPS, data=st.data())
def test_no_more_messages_are_missed_than_are_lost(
    before: list[tuple[str, int]], after: list[tuple[str, int]], data: st.DataObject
) -> None:
    """Work goes on between the count of the messages and that of the jobs."""
    world = World()
    for step in before:
        world.do(*step)
    extent, end, lost = world.extent(), len(world.log), set(world.lost)
    since = data.draw(st.integers(0, end), label="not moved since")
    for step in after:
        world.do(*step)
    position = data.draw(st.integers(end, len(world.log)), label="projected")
    resting = world.resting(position, since)
    assert missing_messages(len(resting), extent) <= len(resting & lost)


@given(steps=STEPS)
def test_when_nothing_moves_every_lost_message_is_missed(steps: list[tuple[str, int]]) -> None:
    world = World()
    for step in steps:
        world.do(*step)
    for _ in range(world.jobs):
        world.source(0)
        world.acknowledge(0)
    end = len(world.log)
    resting = world.resting(end, end)
    assert missing_messages(len(resting), world.extent()) == len(resting & world.lost)


async def projected(raw: Probe, path: Path) -> None:
    async with Projector.open(LogFeed(raw.connection), path) as projector:
        await projector.run(until=(await LogFeed(raw.connection).extent()).last_sequence)


def sent_by(server: EmbeddedServer, name: str) -> int:
    """Messages that the server has received from the connections of this name."""
    url = f"http://{announced(server.store, 'monitoring')}/connz"
    with urllib.request.urlopen(url) as answer:
        told: dict[str, Any] = json.load(answer)
    return sum(each["in_msgs"] for each in told["connections"] if each.get("name") == name)


async def test_a_projection_that_lags_causes_no_request_about_every_job(tmp_path: Path) -> None:
    """It shows 1,500 jobs that wait; by now they are done. Each was asked for, and read whole."""
    path = tmp_path / "jobs.sqlite"
    with EmbeddedServer.start(config=MONITORED) as server:
        async with worker(server.url, "plain") as ward, probe(server.url) as raw:
            ward.service.quiet()
            await ward.jobs.plain.create_many([Task()] * (3 * PAGE_SIZE))
            await until_sourced(raw, 3 * PAGE_SIZE)
            await projected(raw, path)
            ward.service.resume()
            await until_sourced(raw, 0)
            async with Readers.open(path) as readers:
                before = sent_by(server, "probe")
                await reconciliation(raw, readers).sweep()
                asked = sent_by(server, "probe") - before
        # Two requests for each job of one page; a few for the counts and the server's time.
        assert asked <= 2 * PAGE_SIZE + 20


async def test_lost_work_is_found_though_the_counts_do_not_show_it(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    """As on a queue that never rests: others' messages make up for the lost one."""
    path = tmp_path / "jobs.sqlite"
    async with producer(server.url) as jobs, probe(server.url) as raw:
        refs = await jobs.plain.create_many([Task()] * 10)
        await until_sourced(raw, len(refs))
        await projected(raw, path)
        later = await jobs.plain.create_many([Task()] * 10)
        await until_sourced(raw, len(refs) + len(later))
        await purge(raw, "JOBS_WORK", subjects.work(refs[4].address))
        async with Readers.open(path) as readers:
            await reconciliation(raw, readers).sweep()
        assert await raw.work_messages() == len(refs) + len(later)


async def test_running_work_is_never_taken_for_lost_work(
    server: EmbeddedServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Sweeps during the work, each from a projection that is as new as it can be."""
    path = tmp_path / "jobs.sqlite"
    async with worker(server.url, "plain") as ward, probe(server.url) as raw:
        ward.service.quiet()
        refs = await ward.jobs.plain.create_many([Task()] * 1_000)
        await until_sourced(raw, len(refs))
        ward.service.resume()
        for _ in range(3):
            await projected(raw, path)
            async with Readers.open(path) as readers:
                await reconciliation(raw, readers).sweep()
        await until_sourced(raw, 0)
        assert len(ward.runs) == len(refs)
    assert "have no work message" not in caplog.text


async def test_maintenance_rests_nine_tenths_of_the_time_while_the_log_grows() -> None:
    """Each group of 16 requests takes a second here."""
    assert await rests(positions=[7, 8, 9, 10]) == [0, 9, 9, 9]


async def test_maintenance_does_not_rest_while_nothing_is_written() -> None:
    assert await rests(positions=[7, 7, 7, 7]) == [0, 0, 0, 0]


async def rests(positions: list[int]) -> list[float]:
    """After each group, when the projection is at these positions then."""
    clock, slept, seen = [100.0], [0.0] * len(positions), iter(positions)
    groups = iter(range(len(positions)))
    group = -1

    def position() -> int:
        nonlocal group
        group = next(groups)
        clock[0] += 1.0
        return next(seen)

    async def sleep(seconds: float) -> None:
        slept[group] = seconds
        clock[0] += seconds

    async def ask(number: int) -> int:
        return number

    numbers = range(MAX_CONCURRENT * len(positions))
    pace = Pace(position, monotonic=lambda: clock[0], sleep=sleep)
    assert await pace.each(ask, numbers) == list(numbers)
    return slept
