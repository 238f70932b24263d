"""`trellis-jobs dev --app`: services of a project, started again when it is saved."""

from __future__ import annotations

import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from tests.cli.command import Command, running
from tests.cli.processes import children, is_alive
from tests.cli.terminal import on_a_terminal
from tests.support.example_service import ExampleJobs, example_jobs
from tests.support.facts import until
from trellis_jobs import Service

APP = """\
import asyncio

from trellis_jobs import ActiveJob, Jobs, Service, job

class {name}Jobs(Jobs, service="{service}"):
    greet = job(str, str, max_deliver=2, backoff=[0.1])

service = Service({name}Jobs)

@service.jobs.greet.handle
async def greet(job: ActiveJob[str]) -> str:
    {body}
    return "done"
"""


SHOP: Final = example_jobs(
    "shop",
    str,
    str,
    greet={"max_deliver": 2, "backoff": [0.1]},
)


@dataclass
class Project:
    folder: Path

    def save(self, body: str, *, app: str = "app", service: str = "shop") -> None:
        """As an editor does it: a reader of the file gets the old or the new one."""
        source = APP.format(name=service.title(), service=service, body=body)
        self.save_text(source, app=app)

    def save_text(self, source: str, *, app: str = "app") -> None:
        draft = self.folder / f"{app}.draft"
        draft.write_text(source)
        draft.replace(self.folder / f"{app}.py")

    @asynccontextmanager
    async def dev(self, *arguments: str) -> AsyncIterator[tuple[Command, ExampleJobs[str, str]]]:
        command = ("dev", "--app", "app:service", "--port", "0", *arguments)
        printed = self.folder / "said"
        printed.mkdir()
        with running(printed, *command, cwd=self.folder) as dev:
            await dev.until_prints("jobs list")
            async with Service(SHOP).connect(dev.printed.split()[2], workers=False) as shop:
                yield dev, shop.jobs


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path)


async def test_a_service_runs_and_what_it_prints_is_seen(project: Project) -> None:
    project.save("print('hello', job.payload)")
    async with project.dev() as (dev, jobs):
        await dev.until_prints("app:service  runs jobs of greet")
        ref = await jobs.greet.create("ada")
        assert await ref.wait(timeout=20) == "done"
        await dev.until_prints("app:service  hello ada")
        await dev.until_prints(f"{ref.id}  completed")
        dev.send(signal.SIGINT)
        assert await dev.until_exit() == 0
        assert dev.printed.splitlines()[-1] == "stopped after 1 job: 1 completed"


async def test_a_save_starts_it_again(project: Project) -> None:
    project.save("print('hello', job.payload)")
    async with project.dev() as (dev, jobs):
        await dev.until_prints("runs jobs of greet")
        project.save("print('goodbye', job.payload)")
        await until(lambda: dev.printed.count("runs jobs of greet") == 2, "it works again")
        await (await jobs.greet.create("ada")).wait(timeout=20)
        await dev.until_prints("goodbye ada")
        assert "hello ada" not in dev.printed


async def test_a_job_that_runs_while_it_is_saved_is_handed_back(project: Project) -> None:
    project.save("await asyncio.sleep(600)")
    async with project.dev() as (dev, jobs):
        ref = await jobs.greet.create("ada")
        await dev.until_prints(f"{ref.id}  started")
        project.save("pass")
        assert await ref.wait(timeout=20) == "done"
        job_now = await ref.get()
        assert job_now.tries == 1, "the try was given back"
        assert [error.type for error in job_now.errors] == ["shutdown"]


async def test_a_broken_module_is_shown_and_the_next_save_tries_again(project: Project) -> None:
    project.save("pass")
    async with project.dev() as (dev, jobs):
        await dev.until_prints("runs jobs of greet")
        project.save_text("import nothing_of_that_name")
        await dev.until_prints("ModuleNotFoundError: No module named 'nothing_of_that_name'")
        await dev.until_prints("it restarts when a file changes")
        project.save("pass")
        assert await (await jobs.greet.create("ada")).wait(timeout=20) == "done"


async def test_a_crash_is_shown_and_the_next_save_tries_again(project: Project) -> None:
    project.save("import os; os.abort()")
    async with project.dev() as (dev, jobs):
        await jobs.greet.create("ada")
        await dev.until_prints("was killed by SIGABRT; it restarts when a file changes")
        project.save("pass")
        await dev.until_prints("runs jobs of greet")


async def test_without_reload_an_app_that_ends_ends_all(project: Project) -> None:
    project.save_text("1 / 0")
    printed = project.folder / "said"
    printed.mkdir()
    command = ("dev", "--app", "app:service", "--port", "0", "--no-reload")
    with running(printed, *command, cwd=project.folder) as dev:
        assert await dev.until_exit() == 1
        last = dev.printed.splitlines()[-1]
        assert last.startswith("error: app:service exited with code 1: module 'app' cannot be"), (
            last
        )
        assert "ZeroDivisionError" in last


async def test_a_name_that_is_none_is_refused_before_anything_starts(tmp_path: Path) -> None:
    with running(tmp_path, "dev", "--app", "app") as dev:
        assert await dev.until_exit() == 2
        assert "is not of the form MODULE:SERVICE" in " ".join(dev.printed.split())
        assert "nats-server" not in dev.printed


async def test_without_reload_a_save_changes_nothing(project: Project) -> None:
    project.save("print('hello', job.payload)")
    async with project.dev("--no-reload") as (dev, jobs):
        await dev.until_prints("runs jobs of greet")
        project.save("print('goodbye', job.payload)")
        for name in ("ada", "grace"):
            await (await jobs.greet.create(name)).wait(timeout=20)
        await dev.until_prints("hello grace")
        assert "files changed" not in dev.printed


async def test_several_services_at_once(project: Project) -> None:
    project.save("pass")
    project.save("pass", app="other", service="mail")
    async with project.dev("--app", "other:service") as (dev, jobs):
        await dev.until_prints("app:service  runs jobs of greet")
        await dev.until_prints("other:service  runs jobs of greet")
        ref = await jobs.greet.create("ada")
        await dev.until_prints(f"shop/greet        {ref.id}  completed")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
async def test_nothing_is_left_however_it_ends(project: Project, number: signal.Signals) -> None:
    """Not even a worker whose handler never lets go of its event loop."""
    project.save("print('stuck', flush=True); exec('while True: pass')")
    async with project.dev() as (dev, jobs):
        await jobs.greet.create("ada")
        await dev.until_prints("app:service  stuck")
        pids = children(dev.process.pid)
        assert len(pids) == 2
        dev.send(number)
        await until(lambda: not any(map(is_alive, pids)), "all of them end", deadline=40)
        assert await dev.until_exit() == (-9 if number is signal.SIGKILL else 0)


async def test_a_broken_module_is_on_the_screen(project: Project) -> None:
    project.save_text("import nothing_of_that_name")
    command = ("dev", "--app", "app:service", "--port", "0")
    with on_a_terminal(*command, columns=80, cwd=project.folder) as (_, screen):
        await until(lambda: "nothing_of_that_name" in screen.text, "the name that is wrong")
        await until(lambda: "restarts when a file changes" in screen.text, "what to do")
        project.save("pass")
        await until(lambda: "runs jobs of greet" in screen.text, "it works now")


async def test_other_files_do_not_count(project: Project) -> None:
    project.save("pass")
    async with project.dev() as (dev, _):
        await dev.until_prints("runs jobs of greet")
        (project.folder / "notes.txt").write_text("not a source")
        for place in (".hidden", "__pycache__", "node_modules", "environment"):
            (project.folder / place).mkdir(exist_ok=True)
        (project.folder / "environment" / "pyvenv.cfg").touch()
        for place in (".hidden", "__pycache__", "node_modules", "environment"):
            (project.folder / place / "library.py").write_text("")
        os.utime(project.folder / "app.py")
        await until(lambda: dev.printed.count("runs jobs of greet") == 2, "restarting")
        assert dev.printed.count("files changed") == 1
