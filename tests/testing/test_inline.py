"""What is particular about inline(). The rest is in test_conformance.py."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Final

import pytest

from tests.support.example_service import ExampleJobs, Report, Task, example_jobs, task_worker
from tests.support.facts import until
from tests.testing.troupe import Part, Troupe
from trellis_jobs import (
    ActiveJob,
    DeclarationError,
    JobCancelled,
    KeyConcurrency,
    NotConnected,
    QueueDepth,
    Service,
)
from trellis_jobs.model import subjects
from trellis_jobs.testing import assert_enqueued, drain, inline
from trellis_jobs.testing.memory_client import MemoryClient

CHAIN: Final = example_jobs(
    "chain",
    int,
    int,
    link={"concurrency": 1},
)
KEYED: Final = example_jobs(
    "keyed",
    Task,
    Report,
    bake={"key": KeyConcurrency(["/key"]), "queue": QueueDepth(max_queued_per_key=1)},
)


async def test_create_returns_when_the_job_is_over() -> None:
    troupe = Troupe()
    async with inline(troupe.service) as service:
        ref = await service.jobs.play.create(Part(do="stumble"))
        assert [seen.tries for seen in troupe.seen] == [1, 2]
        assert (await ref.get()).state == "completed"
        assert await ref.wait() == "done in 2"


@pytest.mark.parametrize("queue", ["play", "patient"])
async def test_create_many_returns_when_all_its_jobs_are_over(queue: str) -> None:
    troupe = Troupe()
    async with inline(troupe.service) as service:
        refs = await getattr(service.jobs, queue).create_many([Part(), Part(do="stumble")])
        assert [(await ref.get()).state for ref in refs] == ["completed", "completed"]
    assert sorted(seen.tries for seen in troupe.seen) == [1, 1, 2]


async def test_a_handler_may_create_jobs_of_its_own_queue_and_wait_for_them() -> None:
    service = Service(CHAIN)

    @service.jobs.link.handle
    async def link(active: ActiveJob[int]) -> int:
        if active.payload == 0:
            return 0
        return 1 + await (await service.jobs.link.create(active.payload - 1)).wait()

    async with inline(service):
        assert await (await service.jobs.link.create(20)).wait() == 20
        await assert_enqueued(service.jobs.link, count=21)


async def test_a_job_that_waits_for_a_key_runs_once_it_is_free() -> None:
    troupe = Troupe()
    async with inline(troupe.service):
        await troupe.jobs.patient.create(Part(do="ask for more"))
        waited = await assert_enqueued(troupe.jobs.patient, {"do": "answer"}, count=1)
        assert waited[0].job.state == "completed"


async def test_each_waiting_job_runs_when_its_own_key_is_free() -> None:
    """Reproduction: a job whose key was still taken kept those of other keys waiting."""
    worker = task_worker(Service(KEYED))
    async with inline(worker.service):
        holders, creating = [], []
        for key in "ab":
            holders.append(worker.jobs.bake.ref(key))
            task = Task(do="wait", key=key)
            creating.append(asyncio.create_task(worker.jobs.bake.create(task, job_id=key)))
        await worker.until_running(*holders)
        first, second = [await worker.jobs.bake.create(Task(key=key)) for key in "ab"]
        worker.let_go(holders[1])
        assert (await second.wait(timeout=10)).tries == 1
        assert (await first.get()).state == "pending"
        worker.let_go(holders[0])
        assert (await first.wait(timeout=10)).tries == 1
        await asyncio.gather(*creating)


async def test_a_running_job_is_cancelled_from_another_task() -> None:
    troupe = Troupe()
    async with inline(troupe.service):
        creating = asyncio.create_task(troupe.jobs.play.create(Part(do="hang"), job_id="stuck"))
        await until(lambda: troupe.seen)
        await troupe.jobs.play.ref("stuck").cancel("enough")
        ref = await creating
        with pytest.raises(JobCancelled, match="enough"):
            await ref.wait()
        assert troupe.stopped == [True]


async def test_cancelling_a_create_does_not_cancel_the_job() -> None:
    troupe = Troupe()
    async with inline(troupe.service):
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await troupe.jobs.play.create(Part(do="hang"), job_id="stuck")
        assert (await troupe.jobs.play.ref("stuck").get()).state == "active"
        assert troupe.stopped == []
    assert len(troupe.stopped) == 1, "at the end of inline nothing runs on"


def is_watched(service: Service[Any]) -> bool:
    client = service.jobs.runtime.connected.connection._client
    assert isinstance(client, MemoryClient)
    return subjects.of_service(service.name) in [each.subject for each in client.subscriptions]


async def test_drain_waits_for_what_other_tasks_have_created() -> None:
    service, go = Service(CHAIN), asyncio.Event()

    @service.jobs.link.handle
    async def link(active: ActiveJob[int]) -> int:
        await go.wait()
        return active.payload

    async with inline(service):
        creating = asyncio.create_task(service.jobs.link.create(1, job_id="one"))
        await until(lambda: service.jobs.link.ref("one").events())
        draining = asyncio.create_task(drain(service))
        await until(partial(is_watched, service), "drain has seen the job, and waits for its end")
        go.set()
        assert [job.result for job in (await draining).jobs] == [1]
        await creating


async def test_a_service_is_inline_or_connected_and_only_one_of_them() -> None:
    service = Troupe().service
    async with inline(service):
        with pytest.raises(
            DeclarationError, match=r"already connected: enter `inline\(service\)` before"
        ):
            async with inline(service):
                pass
    with pytest.raises(NotConnected):
        await service.jobs.play.create(Part())


async def test_nothing_is_kept_from_one_inline_to_the_next() -> None:
    service = Troupe().service
    for _ in range(2):
        async with inline(service):
            await service.jobs.play.create(Part(), job_id="same")
            await assert_enqueued(service.jobs.play, count=1)


class App:
    """As in Starlette and FastAPI, the lifespan is entered at the start and left at the end."""

    def __init__(self, service: Service[ExampleJobs[Part, str]]) -> None:
        self.service = service

    @asynccontextmanager
    async def lifespan(self) -> AsyncIterator[None]:
        async with self.service.connect("nats://127.0.0.1:1", workers=False):
            yield

    async def post_play(self) -> str:
        return (await self.service.jobs.play.create(Part())).id


async def test_an_app_whose_lifespan_connects_starts_within() -> None:
    """Reproduction: `inline(service)` around such an app raised "is already connected"."""
    troupe = Troupe()
    app = App(troupe.service)
    async with inline(troupe.service):
        for _ in range(2):
            async with app.lifespan():
                ref = troupe.jobs.play.ref(await app.post_play())
                assert (await ref.get()).state == "completed"
        assert (await troupe.jobs.play.create(Part())).id
    with pytest.raises(NotConnected):
        await app.post_play()
