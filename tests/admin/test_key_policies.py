"""What Jobs.GetKey tells about a queue's policy: what the log has of it, and no more."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest
from pydantic import BaseModel

from jobs_admin.api.client import AdminClient
from jobs_admin.api.views.keys import KeyView
from tests.admin.admin_lab import daemon_at, until_projected
from tests.support.example_service import ExampleJobs, example_jobs
from trellis_jobs import JobRef, KeyConcurrency, QueueDepth, QueueFull, Service
from trellis_jobs.embedded import EmbeddedServer


class Page(BaseModel):
    book: str = "a"
    chapter: str = "b"


def _of(when_full: str) -> QueueDepth:
    return QueueDepth(max_queued_per_key=1, when_full=when_full)


KEY = KeyConcurrency(["/book", "/chapter"])


PRESS: Final = example_jobs(
    "press",
    Page,
    int,
    newest={"key": KEY, "queue": _of("replace-oldest")},
    first={"key": KEY, "queue": _of("reject")},
)


async def full(press: ExampleJobs[Page, int], queue: str, page: Page) -> JobRef[int]:
    """The last job that its key admits without a policy; no worker runs the queue."""
    create = getattr(press, queue).create
    await create(page)
    last: JobRef[int] = await create(page)
    return last


async def told(client: AdminClient, queue: str, key: str) -> KeyView:
    return await client.get_key("press", queue, key)


async def test_a_job_that_took_the_place_of_another_is_told_of_its_key_alone(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    """Two keys may look the same, and differ."""
    service = Service(PRESS)
    async with (
        service.connect(server.url, workers=False),
        daemon_at(server.url, tmp_path / "jobs.sqlite") as daemon,
        AdminClient.connect(server.url) as client,
    ):
        queue = service.jobs.newest
        one, alike = Page(book="a:b", chapter="c"), Page(book="a", chapter="b:c")
        await full(service.jobs, "newest", one)
        before = await queue.create(alike)
        key_policy = queue.type.key_policy
        assert key_policy is not None
        hashes = [key_policy.template.resolve(each.model_dump()).hash for each in (one, alike)]
        await until_projected(daemon, 3)
        assert [(await told(client, "newest", each)).latest_policy_reason for each in hashes] == [
            None,
            None,
        ]
        await queue.create(one)
        await until_projected(daemon, 5)
        of_one, of_alike = [await told(client, "newest", each) for each in hashes]
        assert of_one.key == of_alike.key
        assert of_one.latest_policy_reason == "replace-oldest"
        assert of_alike.latest_policy_reason is None
        assert [each.job_id for each in of_alike.queued] == [before.id]


async def test_who_is_rejected_leaves_nothing_to_tell(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    service = Service(PRESS)
    async with (
        service.connect(server.url, workers=False),
        daemon_at(server.url, tmp_path / "jobs.sqlite") as daemon,
        AdminClient.connect(server.url) as client,
    ):
        await full(service.jobs, "first", Page())
        with pytest.raises(QueueFull):
            await service.jobs.first.create(Page())
        await until_projected(daemon, 2)
        assert (await told(client, "first", "a:b")).latest_policy_reason is None
