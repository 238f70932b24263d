"""Clocks that are wrong: what the server stored is as old as the server says (design 5)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.admin.admin_lab import until_projected
from tests.admin.upkeep_lab import (
    ask,
    looking_after,
    producer,
    purge,
    until_sourced,
    until_state,
    until_swept,
    worker,
)
from tests.support.example_service import Task
from tests.support.facts import until
from tests.support.lab import Probe, probe
from trellis_jobs.embedded import EmbeddedServer
from trellis_jobs.model.states import JobState

WRONG = {"ahead": timedelta(hours=2), "behind": -timedelta(hours=2)}
wrong = pytest.mark.parametrize("ahead", WRONG.values(), ids=WRONG.keys())


@wrong
async def test_lost_work_is_put_back_whatever_the_producer_took_for_the_time(
    server: EmbeddedServer, tmp_path: Path, ahead: timedelta
) -> None:
    async with producer(server.url, ahead=ahead) as jobs, probe(server.url) as raw:
        ref = await jobs.plain.create(Task())
        await until_sourced(raw, 1)
        await purge(raw, "JOBS_WORK")
        async with (
            looking_after(server.url, tmp_path / "jobs.sqlite"),
            worker(server.url, "plain"),
        ):
            assert (await ref.wait(timeout=20)).tries == 1


async def test_a_retry_that_was_lost_is_due_whatever_the_worker_took_for_the_time(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    """Its next try is a second after the one that failed, and not in two hours."""
    async with probe(server.url) as raw, producer(server.url) as jobs:
        ref = await jobs.plain.create(Task(do="wait, then fail once"))
        async with worker(server.url, "plain", ahead=WRONG["ahead"]) as ward:
            await ward.until_running(ref)
            ward.service.quiet()
            ward.let_go(ref)
            await until_state(ref, JobState.RETRY)
        await purge(raw, "JOBS_WORK")
        async with looking_after(server.url, tmp_path / "jobs.sqlite"):
            await until_sourced(raw, 1)
        assert (await ref.get()).state is JobState.RETRY


@wrong
async def test_lost_work_is_put_back_whatever_the_admin_takes_for_the_time(
    server: EmbeddedServer, tmp_path: Path, ahead: timedelta
) -> None:
    async with producer(server.url) as jobs, probe(server.url) as raw:
        ref = await jobs.plain.create(Task())
        await until_sourced(raw, 1)
        await purge(raw, "JOBS_WORK")
        async with (
            looking_after(server.url, tmp_path / "jobs.sqlite", ahead=ahead),
            worker(server.url, "plain"),
        ):
            assert (await ref.wait(timeout=20)).tries == 1


async def test_a_late_job_expires_whatever_the_admin_takes_for_the_time(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    async with (
        producer(server.url) as jobs,
        looking_after(server.url, tmp_path / "jobs.sqlite", ahead=WRONG["behind"]),
    ):
        ref = await jobs.brief.create(Task())
        await until_state(ref, JobState.EXPIRED)


async def test_no_job_expires_early_whatever_the_admin_takes_for_the_time(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    async with (
        producer(server.url, ahead=WRONG["ahead"] / 2) as jobs,
        looking_after(server.url, tmp_path / "jobs.sqlite", ahead=WRONG["ahead"]) as daemon,
        probe(server.url) as raw,
    ):
        ref = await jobs.brief.create(Task())
        await until_projected(daemon, (await raw.events.history(ref.address))[-1].sequence)
        await until_swept(daemon, "janitor")
        assert await raw.kinds(ref) == ["created"]


@wrong
async def test_workers_are_there_whatever_the_admin_takes_for_the_time(
    server: EmbeddedServer, tmp_path: Path, ahead: timedelta
) -> None:
    async with (
        probe(server.url) as raw,
        worker(server.url, "plain") as ward,
        looking_after(server.url, tmp_path / "jobs.sqlite", ahead=ahead) as daemon,
    ):
        ref = await ward.jobs.plain.create(Task(do="wait"))
        await ward.until_running(ref)
        await until_projected(daemon, (await raw.events.history(ref.address))[-1].sequence)
        [service] = await until_told_of_workers(raw)
        assert service["healthy"] is True
        assert (await ask(raw, "Jobs.Explain", {"id": ref.id}))["because"] == "running"
        told_at = datetime.fromisoformat((await ask(raw, "Jobs.Stats", {}))["timestamp"])
        assert abs(told_at - datetime.now(UTC)) < timedelta(hours=1)
        health = await ask(raw, "Jobs.Health", {})
        assert health["status"] == "ok", health["checks"]


async def test_no_job_is_removed_early_whatever_the_admin_takes_for_the_time(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    often = {"retention_interval": timedelta(seconds=0.1)}
    async with (
        worker(server.url, "plain") as ward,
        looking_after(
            server.url, tmp_path / "jobs.sqlite", ahead=timedelta(days=400), **often
        ) as daemon,
        probe(server.url) as raw,
    ):
        ref = await ward.jobs.plain.create(Task())
        assert (await ref.wait(timeout=10)).tries == 1
        await until_projected(daemon, (await raw.events.history(ref.address))[-1].sequence)
        await until_swept(daemon, "retention")
        assert await raw.kinds(ref) == ["created", "started", "completed"]


async def until_told_of_workers(raw: Probe) -> list[dict[str, Any]]:
    async def told() -> list[dict[str, Any]] | None:
        entries: list[dict[str, Any]] = (await ask(raw, "Jobs.ListServices", {"limit": 5}))[
            "entries"
        ]
        return entries if entries and entries[0]["workers"] else None

    return await until(told, "the worker's heartbeat is told")
