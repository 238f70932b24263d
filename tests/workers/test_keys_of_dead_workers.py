"""The key of a dead worker's job: only that job starts under it, until the worker is surely gone.

A worker that is declared dead may only be frozen or cut off, and then its handler may still run.
"""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path

import pytest

from tests.cli.shell import Ended
from tests.cli.stage import Place
from tests.keys.work_lab import (
    key_view,
    most_at_once,
    producer,
    started_order,
    until_out,
    worker,
    yard_process,
)
from tests.support.example_service import Task
from tests.support.facts import until
from tests.support.fault_proxy import fault_proxy
from tests.support.lab import probe, until_state
from tests.workers.test_dead_workers import admins
from trellis_jobs import KeyBusy
from trellis_jobs.embedded import EmbeddedServer
from trellis_jobs.model.events import EventKind
from trellis_jobs.model.states import JobState


async def release(url: str, job_id: str) -> Ended:
    held = ("yard/calm-last", "yard:acme", job_id)
    arguments = ("release", *held, "--reason", "the machine is gone", "--yes")
    return await asyncio.to_thread(Place(url).shell, "keys", *arguments)


async def test_a_recovered_job_takes_its_own_slot_back_at_once(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    """Its lease outlasts this test."""
    async with producer(server.url) as jobs, admins(server.url, tmp_path), probe(server.url) as raw:
        key = key_view(raw, jobs.calm)
        with yard_process(server.url, tmp_path / "w", "calm", dead_after=2) as dying:
            ref = await jobs.calm.create(Task(do="wait"))
            await dying.until_running(ref)
            lost = await key.until_held_by(ref)
            following = await jobs.calm.create(Task())
            dying.kill()
        async with worker(server.url, "calm", grace=5) as other:
            await other.until_running(ref)
            held = await key.until_held_by(ref)
            assert held.token != lost.token
            assert (await key.read()).active == (held,)
            other.go.set()
            assert (await ref.wait(timeout=30)).tries == 2
            await following.wait(timeout=30)
            assert (await key.until_empty()).stale_takeovers == 0
        assert await started_order(raw, [ref, following]) == [ref.id, ref.id, following.id]


async def test_an_operator_releases_the_key_of_a_job_that_died_with_its_worker(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    async with (
        producer(server.url) as jobs,
        admins(server.url, tmp_path),
        probe(server.url) as raw,
    ):
        key = key_view(raw, jobs.calm_last)
        with yard_process(server.url, tmp_path / "w", "calm_last", dead_after=2) as dying:
            ref = await jobs.calm_last.create(Task(do="wait"))
            await dying.until_running(ref)
            refused = await release(server.url, ref.id)
            assert refused.code == 1, refused
            assert "only a slot with an expired lease" in " ".join(refused.err.split())
            dying.kill()
        await until_state(ref, JobState.DEAD)
        async with worker(server.url, "calm-last", grace=5) as other:
            following = await jobs.calm_last.create(Task())
            await until_out(raw, jobs.calm_last, 1)
            assert [slot.job_id for slot in (await key.read()).active] == [ref.id]
            ended = await release(server.url, ref.id)
            assert ended.code == 0, ended
            assert (await following.wait(timeout=30)).tries == 1
            assert other.begun == [following.id]
            await key.until_empty()
        kinds = await raw.kinds(ref)
        assert kinds[-2:] == [EventKind.DEAD, EventKind.STALE_COMPLETION_IGNORED]


async def test_a_worker_that_was_frozen_frees_the_key_of_its_dead_job_when_it_wakes(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    """Its last pull ends after 5 s, so a job that is enqueued after 8 s is not delivered to it."""
    async with producer(server.url) as jobs, admins(server.url, tmp_path), probe(server.url) as raw:
        key = key_view(raw, jobs.calm_last)
        with yard_process(server.url, tmp_path / "w1", "calm_last", dead_after=8) as frozen:
            ref = await jobs.calm_last.create(Task(do="wait"))
            await frozen.until_running(ref)
            frozen.send(signal.SIGSTOP)
            await until_state(ref, JobState.DEAD)
            with yard_process(server.url, tmp_path / "w2", "calm_last") as other:
                following = await jobs.calm_last.create(Task())
                await until_out(raw, jobs.calm_last, 1)
                assert [slot.job_id for slot in (await key.read()).active] == [ref.id]
                frozen.send(signal.SIGCONT)
                await following.wait(timeout=30)
                await key.until_empty()
                assert frozen.cancelled == [ref.id]
                assert most_at_once([*frozen.runs, *other.runs]) == {"acme": 1}


async def test_a_worker_that_is_cut_off_keeps_the_key_of_its_dead_job(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    async with (
        producer(server.url) as jobs,
        admins(server.url, tmp_path),
        probe(server.url) as raw,
        fault_proxy(server.url) as proxy,
    ):
        key = key_view(raw, jobs.calm_strict)
        with yard_process(proxy.url, tmp_path / "w", "calm_strict", dead_after=2) as cut_off:
            ref = await jobs.calm_strict.create(Task(do="wait"))
            await cut_off.until_running(ref)
            proxy.refuse()
            await until_state(ref, JobState.DEAD)
            assert cut_off.cancelled == []
            with pytest.raises(KeyBusy) as busy:
                await jobs.calm_strict.create(Task())
            assert busy.value.existing_job_id == ref.id
            proxy.admit()
            await until(lambda: cut_off.cancelled == [ref.id], "its handler is stopped")
            await key.until_empty()
            following = await jobs.calm_strict.create(Task())
            await following.wait(timeout=30)
            assert most_at_once(cut_off.runs) == {"acme": 1}
