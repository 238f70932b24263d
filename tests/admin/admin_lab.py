"""A running admin runtime to ask, and jobs of the lab to ask about."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import orjson

from jobs_admin.api.client import AdminClient
from jobs_admin.api.views.health import Mode
from jobs_admin.config import AdminConfig
from jobs_admin.daemon import Daemon, serving
from tests.support.example_service import TaskJobs
from tests.support.facts import until
from tests.support.lab import producer
from trellis_jobs.environment import Environment, utc_now
from trellis_jobs.jetstream.client.connection import Connection
from trellis_jobs.jetstream.client.rpc import Reply, rpc_call
from trellis_jobs.model import subjects
from trellis_jobs.model.states import JobState


@dataclass
class Stranger:
    """A client that may send any bytes to any subject."""

    connection: Connection

    async def send(self, method: str, data: bytes, **headers: str) -> Reply:
        return await rpc_call(
            self.connection, subjects.rpc(method), data, headers=headers or None, timeout=20
        )

    async def ask(self, method: str, body: Any = None, **headers: str) -> dict[str, Any]:
        """The answer, which is a refusal or not."""
        reply = await self.send(method, orjson.dumps({} if body is None else body), **headers)
        answer = orjson.loads(reply.data)
        assert isinstance(answer, dict)
        return answer

    async def refused(self, method: str, data: bytes) -> dict[str, Any]:
        reply = await self.send(method, data)
        assert reply.headers == {"status": "error"}, reply.data
        answer = orjson.loads(reply.data)
        assert isinstance(answer, dict)
        return answer


@dataclass
class AdminLab:
    """`daemon` answers the requests of `client`. No worker runs the created `jobs`."""

    url: str
    path: Path
    daemon: Daemon
    client: AdminClient
    stranger: Stranger
    jobs: TaskJobs


@asynccontextmanager
async def daemon_at(
    url: str, path: Path, *, ahead: timedelta = timedelta(0), **changes: Any
) -> AsyncGenerator[Daemon, None]:
    """`ahead`: of the time that everybody else has."""
    around = Environment(now=lambda: utc_now() + ahead)
    async with serving(AdminConfig(nats=url, path=path, **changes), around) as daemon:
        yield daemon


async def until_projected(daemon: Daemon, sequence: int) -> None:
    """Also works while the file is rebuilt, when requests are refused at once."""
    await until(lambda: daemon.progress.position >= sequence, f"the projection is at {sequence}")


def time_passes(daemon: Daemon, by: timedelta) -> None:
    """The server's time, as this daemon knows it; it asks again after half a minute."""
    clock = daemon.clock
    assert clock._offset is not None
    clock._offset += by


@asynccontextmanager
async def stranger_at(url: str) -> AsyncGenerator[Stranger, None]:
    connection = await Connection.open(url, name="a stranger")
    try:
        yield Stranger(connection)
    finally:
        await connection.close()


@asynccontextmanager
async def admin_lab(
    url: str, folder: Path, *, mode: Mode = Mode.FULL
) -> AsyncGenerator[AdminLab, None]:
    path = folder / "jobs.sqlite"
    async with (
        producer(url) as jobs,
        daemon_at(url, path, mode=mode) as daemon,
        AdminClient.connect(url, by="ann", timeout=20) as client,
        stranger_at(url) as stranger,
    ):
        yield AdminLab(url, path, daemon, client, stranger, jobs)


async def until_shown(client: AdminClient, ids: Iterable[str], state: JobState) -> None:
    """The projection has what the log has of these jobs."""
    for job_id in ids:

        async def there(job_id: str = job_id) -> bool:
            return (await client.get(job_id)).state is state

        await until(there, f"{job_id} is shown as {state}")
