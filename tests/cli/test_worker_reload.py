"""`trellis-jobs worker --reload`: a worker that is started again when its project is saved."""

from __future__ import annotations

import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.cli.command import Command, running
from tests.cli.processes import children, is_alive
from tests.cli.test_dev_apps import SHOP, Project
from tests.support.example_service import ExampleJobs
from tests.support.facts import until
from trellis_jobs import Service
from trellis_jobs.embedded import EmbeddedServer

STARTED = "worker started"


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path)


@asynccontextmanager
async def worker(
    project: Project, server: EmbeddedServer
) -> AsyncIterator[tuple[Command, ExampleJobs[str, str]]]:
    printed = project.folder / "said"
    printed.mkdir()
    command = ("worker", "app:service", "--reload", "--nats", server.url)
    with running(printed, *command, cwd=project.folder) as started:
        async with Service(SHOP).connect(server.url, workers=False) as shop:
            yield started, shop.jobs


async def until_stopped(worker: Command) -> None:
    """With the process that it had started."""
    pids = children(worker.process.pid)
    worker.send(signal.SIGTERM)
    assert await worker.until_exit() == 0, worker.printed
    await until(lambda: not any(map(is_alive, pids)), "nothing is left")


async def test_a_save_starts_it_again_and_a_running_job_is_handed_back(
    project: Project, server: EmbeddedServer
) -> None:
    project.save("print('begun', flush=True); await asyncio.sleep(600)")
    async with worker(project, server) as (reloading, jobs):
        ref = await jobs.greet.create("ada")
        await reloading.until_prints("begun")
        project.save("print('goodbye', job.payload)")
        assert await ref.wait(timeout=20) == "done"
        assert [error.type for error in (await ref.get()).errors] == ["shutdown"]
        await reloading.until_prints("goodbye ada")
        assert reloading.printed.count("files changed, restarting the worker") == 1
        assert reloading.printed.count(STARTED) == 2
        await until_stopped(reloading)


async def test_a_syntax_error_is_shown_and_the_next_save_starts_it_again(
    project: Project, server: EmbeddedServer
) -> None:
    project.save("pass")
    async with worker(project, server) as (reloading, jobs):
        await reloading.until_prints(STARTED)
        project.save_text("def broken(:")
        await reloading.until_prints("SyntaxError")
        await reloading.until_prints("it restarts when a file changes")
        project.save("pass")
        assert await (await jobs.greet.create("ada")).wait(timeout=20) == "done"
        await until_stopped(reloading)
