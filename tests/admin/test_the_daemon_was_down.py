"""The admin runtime may be down at any time: jobs go on, and what waited for it happens later."""

from __future__ import annotations

import asyncio
import logging
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests import given
from tests.admin.admin_lab import until_projected
from tests.admin.upkeep_lab import (
    ask,
    key_view,
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
from tests.support.example_service import Report, Task, TaskJobs
from tests.support.facts import until
from tests.support.lab import Probe, probe
from trellis_jobs import JobRef
from trellis_jobs.embedded import EmbeddedServer
from trellis_jobs.model import subjects
from trellis_jobs.model.events import EventKind
from trellis_jobs.model.states import JobState
from trellis_jobs.model.values import replace


@pytest.mark.parametrize("was_there_before", [True, False], ids=["again", "for the first time"])
async def test_everything_that_waited_for_the_daemon_happens_when_it_is_back(
    server: EmbeddedServer, tmp_path: Path, was_there_before: bool
) -> None:
    path = tmp_path / "jobs.sqlite"
    async with producer(server.url) as jobs, probe(server.url) as raw:
        if was_there_before:
            async with looking_after(server.url, path):
                await (await jobs.single.create(Task())).cancel()
        given_up = await taken_by_one_that_died(server.url, tmp_path, jobs)
        late = await jobs.brief.create(Task())
        ended = await jobs_that_need_no_daemon(server.url)
        lost = await without_its_message(raw, jobs)
        left = await left_in_its_key(raw, jobs)
        assert {(await ref.get()).state for ref in (given_up, late, lost)} == {JobState.PENDING}

        async with looking_after(server.url, path), worker(server.url, "once"):
            assert await until_kind(raw, given_up, EventKind.DEAD) == ["created", "dead"]
            assert await until_kind(raw, late, EventKind.EXPIRED) == ["created", "expired"]
            await key_view(raw, jobs.keyed).until_empty()
            async with worker(server.url, "single"):
                assert (await lost.wait(timeout=10)).tries == 1
            ended |= {given_up: "dead", late: "expired", lost: "completed", left: "cancelled"}
            await all_shown(raw, ended)


async def test_what_ended_while_it_was_down_is_no_lost_work(
    server: EmbeddedServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "jobs.sqlite"
    async with producer(server.url) as jobs:
        async with looking_after(server.url, path) as daemon:
            waiting = await jobs.plain.create_many([Task()] * 3)
            await until_projected(daemon, 3)
        async with worker(server.url, "plain"):
            await asyncio.gather(*(ref.wait(timeout=10) for ref in waiting))
        async with looking_after(server.url, path, reconcile_grace=timedelta(0)) as daemon:
            await until_swept(daemon, "reconciliation")
    assert [each.message for each in caplog.records if each.levelno >= logging.WARNING] == []


async def taken_by_one_that_died(url: str, folder: Path, jobs: TaskJobs) -> JobRef[Report]:
    ref = await jobs.once.create(Task())
    with ward_process(url, folder / "mute", "once", says_nothing=True) as mute:
        await mute.until_begun(ref)
    return ref


async def jobs_that_need_no_daemon(url: str) -> dict[JobRef[Report], str]:
    """They run, fail, die and are cancelled; and with `once` a worker requests work again."""
    async with worker(url, "plain", "single", "once") as ward:
        done = await ward.jobs.plain.create(Task())
        assert (await done.wait(timeout=10)).tries == 1
        dead = await ward.jobs.single.create(Task(do="always fail"))
        await until_state(dead, JobState.DEAD)
        retried = await ward.jobs.plain.create(Task(do="fail once"))
        assert (await retried.wait(timeout=10)).tries == 2
        cancelled = await ward.jobs.plain.create(Task(do="wait"))
        await ward.until_running(cancelled)
        await cancelled.cancel()
        await until(lambda: ward.cancelled == [cancelled.id], "the handler was told")
    return {done: "completed", dead: "dead", retried: "completed", cancelled: "cancelled"}


async def without_its_message(raw: Probe, jobs: TaskJobs) -> JobRef[Report]:
    before = await raw.work_messages()
    ref = await jobs.single.create(Task())
    await until_sourced(raw, before + 1)
    await purge(raw, "JOBS_WORK", subjects.work(ref.address))
    return ref


async def left_in_its_key(raw: Probe, jobs: TaskJobs) -> JobRef[Report]:
    ref, key = await jobs.keyed.create(Task()), key_view(raw, jobs.keyed)
    await ref.cancel()
    left = given.waiting(ref.id, created_at=datetime(2026, 1, 1, tzinfo=UTC))
    await key.write(replace(await key.read(), queued=(left,)))
    return ref


async def all_shown(raw: Probe, ended: dict[JobRef[Report], str]) -> None:
    for ref, state in ended.items():
        newest = (await raw.events.history(ref.address))[-1].sequence
        shown = await ask(raw, "Jobs.Get", {"id": ref.id, "minSeq": newest})
        assert shown["job"]["state"] == state, ref
