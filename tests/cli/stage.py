"""A server, an admin runtime and jobs of the lab, for commands to be tried on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jobs_admin.api.client import AdminClient
from jobs_admin.api.views.jobs import JobView
from tests.admin.admin_lab import until_shown
from tests.cli.command import Command, running
from tests.cli.shell import Ended, at_terminal, shell
from tests.support.lab import dead_jobs
from trellis_jobs.embedded import EmbeddedServer
from trellis_jobs.model.states import JobState


@dataclass(frozen=True)
class Place:
    """Commands are run against this server."""

    url: str

    def shell(self, *arguments: str, stdin: str = "") -> Ended:
        return shell(*arguments, stdin=stdin, env={"NATS_URL": self.url})

    def at_terminal(
        self,
        *arguments: str,
        types: str = "",
        columns: int = 80,
        env: Mapping[str, str] | None = None,
    ) -> Ended:
        there = {"NATS_URL": self.url, **(env or {})}
        return at_terminal(*arguments, types=types, columns=columns, env=there)


@dataclass(frozen=True)
class Stage(Place):
    """`admin` is the admin runtime's process, `db` the file it fills."""

    admin: Command
    db: Path

    def dead(self, *errors: str, version: str | None = None) -> list[str]:
        """Jobs that died of these, in this order, and are known to have."""
        return asyncio.run(self._dead(errors, version))

    async def _dead(self, errors: tuple[str, ...], version: str | None) -> list[str]:
        ids = await dead_jobs(self.url, *errors, version=version)
        async with AdminClient.connect(self.url) as admin:
            await until_shown(admin, ids, JobState.DEAD)
        return ids

    def job(self, job_id: str) -> JobView:
        return asyncio.run(self._asked(lambda admin: admin.get(job_id)))

    async def _asked(
        self, question: Callable[[AdminClient], Coroutine[Any, Any, JobView]]
    ) -> JobView:
        async with AdminClient.connect(self.url) as admin:
            return await question(admin)


@contextmanager
def stage(folder: Path) -> Iterator[Stage]:
    db = folder / "jobs.sqlite"
    serve = ("admin", "serve", "--provision", "--db", str(db))
    with (
        EmbeddedServer.start() as server,
        running(folder, *serve, "--nats", server.url) as admin,
    ):
        asyncio.run(admin.until_prints("admin runtime started"))
        yield Stage(server.url, admin, db)
