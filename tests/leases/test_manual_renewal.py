"""With renew="manual", a handler that stops calling heartbeat() loses its job."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import pytest

from tests.support.example_service import Task, example_jobs
from tests.support.facts import until
from trellis_jobs import (
    ActiveJob,
    DeclarationError,
    JobDead,
    JobOptionInvalid,
    Jobs,
    KeyConcurrency,
    Service,
    Workers,
    job,
)
from trellis_jobs.embedded import EmbeddedServer
from trellis_jobs.model.events import EventKind
from trellis_jobs.testing import inline

MANUAL = example_jobs(
    "manual",
    Task,
    str,
    work={"renew": "manual", "ack_wait": 0.5, "backoff": [0.05], "max_deliver": 2},
    keyed={
        "renew": "manual",
        "ack_wait": 0.5,
        "backoff": [0.05],
        "max_deliver": 2,
        "key": KeyConcurrency(["/text"]),
    },
    automatic={"ack_wait": 0.5},
)


@asynccontextmanager
async def working(
    url: str, handler: Callable[[ActiveJob[Task]], Any], queue: str = "work"
) -> AsyncIterator[Service[Any]]:
    service: Service[Any] = Service(MANUAL)
    getattr(service.jobs, queue).handle(handler)
    async with service.connect(url, workers=Workers(queues=[queue])):
        yield service


def errors(job: Any) -> list[tuple[str, str]]:
    return [(error.type, error.message) for error in job.errors]


@pytest.mark.parametrize("queue", ["work", "keyed"])
async def test_a_hung_handler_is_stopped_and_its_job_tried_again(
    server: EmbeddedServer, queue: str
) -> None:
    stopped: list[int] = []

    async def hang_once(job: ActiveJob[Task]) -> str:
        if job.tries == 1:
            try:
                await asyncio.Event().wait()
            finally:
                stopped.append(job.tries)
        return "done"

    async with working(server.url, hang_once, queue) as service:
        ref = await getattr(service.jobs, queue).create(Task(text="a"))
        assert await ref.wait(timeout=10) == "done"
        assert stopped == [1]
        why = ("visibility_timeout", "the handler did not call heartbeat() within 500 ms")
        assert errors(await ref.get()) == [why]


async def test_a_job_whose_handler_hangs_in_its_last_try_is_dead(server: EmbeddedServer) -> None:
    async def hang(job: ActiveJob[Task]) -> str:
        await asyncio.Event().wait()
        return ""

    async with working(server.url, hang) as service:
        ref = await service.jobs.work.create(Task(), max_tries=1, visibility=0.2)
        with pytest.raises(JobDead, match="visibility_timeout"):
            await ref.wait(timeout=10)
        assert "within 200 ms" in errors(await ref.get())[0][1]


@pytest.mark.parametrize("is_async", [True, False])
async def test_a_handler_that_calls_heartbeat_keeps_its_job(
    server: EmbeddedServer, is_async: bool
) -> None:
    """Twenty times 0.1 s are four times the lease."""

    async def beat(job: ActiveJob[Task]) -> str:
        for _ in range(20):
            await asyncio.sleep(0.1)
            job.heartbeat()
        return "done"

    def beat_in_thread(job: ActiveJob[Task]) -> str:
        for _ in range(20):
            time.sleep(0.1)
            job.heartbeat()
        return "done"

    async with working(server.url, beat if is_async else beat_in_thread) as service:
        ref = await service.jobs.work.create(Task())
        assert await ref.wait(timeout=10) == "done"
        job = await ref.get()
        assert (job.tries, errors(job)) == (1, [])


async def test_a_visibility_that_is_longer_than_the_lease_needs_no_heartbeat(
    server: EmbeddedServer,
) -> None:
    async def nap(job: ActiveJob[Task]) -> str:
        await asyncio.sleep(2)
        return "done"

    async with working(server.url, nap) as first, working(server.url, nap):
        ref = await first.jobs.work.create(Task(), visibility=timedelta(seconds=30))
        assert await ref.wait(timeout=10) == "done"
        assert (await ref.get()).tries == 1


async def test_a_hung_function_in_a_thread_is_told_and_its_job_tried_again(
    server: EmbeddedServer,
) -> None:
    told = threading.Event()

    def hang_once(job: ActiveJob[Task]) -> str:
        if job.tries == 1:
            while not job.cancelled:
                time.sleep(0.01)
            told.set()
        return "done"

    async with working(server.url, hang_once) as service:
        ref = await service.jobs.work.create(Task())
        assert await ref.wait(timeout=10) == "done"
        await until(told.is_set, "the function is told")
        assert [kind for kind, _ in errors(await ref.get())] == ["visibility_timeout"]


async def test_a_heartbeat_after_the_end_of_the_visibility_revives_nothing(
    server: EmbeddedServer,
) -> None:
    async def stubborn(job: ActiveJob[Task]) -> str:
        if job.tries == 1:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                job.heartbeat()
                raise
        return "done"

    async with working(server.url, stubborn) as service:
        ref = await service.jobs.work.create(Task())
        await ref.wait(timeout=10)
        kinds = [event.kind for event in await ref.events()]
        assert EventKind.HEARTBEAT not in kinds
        assert kinds.count(EventKind.RETRY) == 1


async def test_a_queue_with_automatic_renewal_refuses_a_visibility() -> None:
    service: Service[Any] = Service(MANUAL)

    async def work(job: ActiveJob[Task]) -> str:
        return ""

    service.jobs.automatic.handle(work)
    async with inline(service):
        with pytest.raises(JobOptionInvalid, match='needs a queue that declares renew="manual"'):
            await service.jobs.automatic.create(Task(), visibility=60)
        with pytest.raises(JobOptionInvalid, match=r"visibility must be at least 0\.1 s"):
            await service.jobs.work.create(Task(), visibility=0.05)


def test_a_renewal_that_does_not_exist_is_refused() -> None:
    with pytest.raises(DeclarationError, match="renew must be 'automatic' or 'manual', is 'never'"):

        class WrongJobs(Jobs, service="wrong"):
            work = job(Task, str, renew="never")  # type: ignore[call-overload]


async def test_a_worker_with_a_blocked_event_loop_loses_the_job(server: EmbeddedServer) -> None:
    """With automatic renewal it would keep the job: its lease thread is alive and connected."""
    blocked, release = threading.Event(), threading.Event()

    async def block(job: ActiveJob[Task]) -> str:
        blocked.set()
        release.wait(30)  # blocks the event loop of its thread
        return "too late"

    async def done(job: ActiveJob[Task]) -> str:
        return "done"

    async def work_until_released() -> None:
        async with working(server.url, block):
            await until(release.is_set, "the other worker is done")

    other_loop = threading.Thread(target=lambda: asyncio.run(work_until_released()))
    other_loop.start()
    try:
        service: Service[Any] = Service(MANUAL)
        async with service.connect(server.url, workers=False):
            ref = await service.jobs.work.create(Task())
            await until(blocked.is_set, "the first worker is blocked")
            async with working(server.url, done):
                assert await ref.wait(timeout=10) == "done"
            [(kind, message)] = errors(await ref.get())
            assert kind == "visibility_timeout"
            assert "did not renew its lease" in message
    finally:
        release.set()
        await asyncio.to_thread(other_loop.join)


async def test_a_hung_handler_that_ignores_its_end_is_no_shutdown(server: EmbeddedServer) -> None:
    """Its worker stops while the handler still runs: the try counts, with the right error."""
    cancelled, release = asyncio.Event(), asyncio.Event()

    async def ignore(job: ActiveJob[Task]) -> str:
        while not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                cancelled.set()
        return ""

    service: Service[Any] = Service(MANUAL, grace=0.1)
    service.jobs.work.handle(ignore)
    observer: Service[Any] = Service(MANUAL)
    async with observer.connect(server.url, workers=False):
        async with service.connect(server.url, workers=Workers(queues=["work"])):
            ref = await observer.jobs.work.create(Task())
            await asyncio.wait_for(cancelled.wait(), 10)
        assert [kind for kind, _ in errors(await ref.get())] == ["visibility_timeout"]
        release.set()
