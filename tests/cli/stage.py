"""A server, an admin runtime and jobs of the lab, for commands to be tried on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jobs_admin.client import AdminClient
from jobs_admin.views.jobs import JobView
from tests.cli.command import Command, running
from tests.cli.shell import Ended, at_terminal, shell
from tests.support.lab import Task, until_state, worker
from trellis_jobs.embedded import EmbeddedServer
from trellis_jobs.model.states import JobState


@dataclass(frozen=True)
class Place:
    """Commands are run against this server."""

    url: str

    def shell(self, *arguments: str, stdin: str = "") -> Ended:
        return shell(*arguments, stdin=stdin, env={"NATS_URL": self.url})

    def at_terminal(self, *arguments: str, types: str = "", columns: int = 80) -> Ended:
        return at_terminal(*arguments, types=types, columns=columns, env={"NATS_URL": self.url})


@dataclass(frozen=True)
class Stage(Place):
    """`admin` is the admin runtime's process."""

    admin: Command

    def dead(self, *errors: str) -> list[str]:
        """Jobs that died of these, in this order."""
        return asyncio.run(_die(self.url, errors))

    def job(self, job_id: str) -> JobView:
        return asyncio.run(self._asked(lambda admin: admin.get(job_id)))

    async def _asked(
        self, question: Callable[[AdminClient], Coroutine[Any, Any, JobView]]
    ) -> JobView:
        async with AdminClient.connect(self.url) as admin:
            return await question(admin)


@contextmanager
def stage(folder: Path) -> Iterator[Stage]:
    serve = ("admin", "serve", "--provision", "--db", str(folder / "jobs.sqlite"))
    with (
        EmbeddedServer.start() as server,
        running(folder, *serve, "--nats", server.url) as admin,
    ):
        asyncio.run(admin.until_says("admin runtime started"))
        yield Stage(server.url, admin)


async def _die(url: str, errors: tuple[str, ...]) -> list[str]:
    async with worker(url, "single") as bench:
        refs = [await bench.jobs.single.create(Task(do="always fail", text=e)) for e in errors]
        for ref in refs:
            await until_state(ref, JobState.DEAD)
    return [ref.id for ref in refs]
