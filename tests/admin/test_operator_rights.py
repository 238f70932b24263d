"""What operators may do is a matter of subjects: the contract says which go with which right."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from jobs_admin.api.client import AdminClient
from jobs_admin.api.contract import RPCS, Capability
from tests.admin.admin_lab import daemon_at
from tests.support.example_service import Task, TaskJobs
from tests.support.lab import producer
from trellis_jobs.embedded import HOST, EmbeddedServer
from trellis_jobs.errors import NotPermitted
from trellis_jobs.model import subjects
from trellis_jobs.model.states import JobState


def waiting_pulls(*capabilities: Capability) -> str:
    allowed = [subjects.rpc(name) for name, rpc in RPCS.items() if rpc.needs in capabilities]
    return json.dumps({"publish": allowed, "subscribe": ["_INBOX.>"]})


CONFIG = f"""
authorization {{ users: [
    {{ user: admin, password: admin }}
    {{ user: reader, password: reader, permissions: {waiting_pulls(Capability.READ)} }}
    {{ user: steward, password: steward, permissions: {waiting_pulls(*Capability)} }}
] }}
"""


class Installation:
    def __init__(self, port: int, jobs: TaskJobs) -> None:
        self._port = port
        self.jobs = jobs

    def url(self, user: str) -> str:
        return f"nats://{user}:{user}@{HOST}:{self._port}"


@pytest.fixture
async def installation(tmp_path: Path) -> AsyncIterator[Installation]:
    with EmbeddedServer.start(config=CONFIG) as server:
        url = f"nats://admin:admin@{HOST}:{server.port}"
        async with producer(url) as jobs, daemon_at(url, tmp_path / "jobs.sqlite"):
            yield Installation(server.port, jobs)


async def test_who_may_read_sees_everything_and_changes_nothing(
    installation: Installation,
) -> None:
    ref = await installation.jobs.work.create(Task())
    async with AdminClient.connect(installation.url("reader")) as client:
        assert (await client.get(ref.id)).state is JobState.PENDING
        assert (await client.health()).status == "ok"
        assert (await client.explain(ref.id)).state is JobState.PENDING
        for change in (client.cancel, client.retry, client.replay, client.dismiss):
            with pytest.raises(NotPermitted, match=r"may not publish to rpc\.v1\.Jobs\."):
                await change(ref.id)
        assert (await client.get(ref.id)).state is JobState.PENDING


async def test_who_may_change_does(installation: Installation) -> None:
    ref = await installation.jobs.work.create(Task())
    async with AdminClient.connect(installation.url("steward"), by="steward") as client:
        assert (await client.cancel(ref.id)).job.by == "steward"
