"""Resources are open from before the first job of a worker until after its last."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from typing import Any, Final

import pytest

from tests.resources.shop import Database, Shop
from tests.support.example_service import ExampleJobs, example_jobs
from tests.support.facts import until
from trellis_jobs import (
    ActiveJob,
    DeclarationError,
    InfrastructureError,
    ResourceUnavailable,
    Service,
)
from trellis_jobs.testing import ConnectService, drain, inline, run_handler

OPENED = ["open first", "open second of shop"]
CLOSED = ["close second of shop", "close first"]


async def test_resources_open_before_the_first_job_and_close_after_the_last(
    connected_service: ConnectService,
) -> None:
    shop = Shop()
    async with connected_service(shop.service, workers=True) as service:
        assert await (await service.jobs.pack.create("a")).wait(10) == "second of shop"
        assert await (await service.jobs.weigh.create("in a thread")).wait(10) == "first"
    assert shop.done == [*OPENED, "start a", "end a", *CLOSED]


async def test_a_job_that_runs_when_its_worker_stops_ends_before_resources_close(
    connected_service: ConnectService,
) -> None:
    shop = Shop()
    async with connected_service(shop.service, workers=True) as service:
        ref = await service.jobs.pack.create("wait")
        await until(lambda: "start wait" in shop.done)
        stopping = asyncio.create_task(service.stop())
        await until(service.jobs.runtime.connected.stopped.is_set)
        shop.go.set()
        await stopping
        assert (await ref.get()).state == "completed"
    assert shop.done == [*OPENED, "start wait", "end wait", *CLOSED]


async def test_what_opens_a_resource_may_create_jobs_and_stop_the_service(
    connected_service: ConnectService,
) -> None:
    shop = Shop()

    @shop.service.lifespan
    @asynccontextmanager
    async def first_job(service: Service[ExampleJobs[str, str]]) -> AsyncIterator[str]:
        await service.jobs.pack.create("first", job_id="first")
        await service.stop()
        yield "first"

    async with connected_service(shop.service, workers=True) as service:
        await service.wait()
        assert (await service.jobs.pack.ref("first").get()).state in {"pending", "completed"}
    assert shop.done[-2:] == CLOSED


async def test_a_service_that_only_produces_opens_nothing(
    connected_service: ConnectService,
) -> None:
    shop = Shop()
    async with connected_service(shop.service) as service:
        await service.jobs.pack.create("a")
        with pytest.raises(ResourceUnavailable, match=r"'open_first' is not open: .* workers"):
            shop.first.get()
        assert shop.done == []
        assert [ended.result for ended in (await drain(service)).jobs] == ["second of shop"]
    assert shop.done == [*OPENED, "start a", "end a", *CLOSED]


async def test_a_resource_that_fails_to_open_stops_the_start(
    connected_service: ConnectService, caplog: pytest.LogCaptureFixture
) -> None:
    shop = Shop(frozenset({"open second of shop"}))
    with pytest.raises(ResourceUnavailable, match=r"'open_second' .* OSError: cannot open") as why:
        async with connected_service(shop.service, workers=True):
            pytest.fail("workers were started")
    assert isinstance(why.value.__cause__, OSError)
    assert shop.done == [*OPENED, "close first"], "what was open is closed again"
    assert "resource 'open_second' of service 'shop' failed to open" in caplog.text
    shop.broken = frozenset()
    async with connected_service(shop.service, workers=True) as service:
        assert await (await service.jobs.pack.create("a")).wait(10)


async def test_workers_that_fail_to_start_leave_nothing_open(
    connected_service: ConnectService, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop = Shop()

    async def fail(*_: object) -> None:
        raise InfrastructureError("the consumer cannot be made")

    monkeypatch.setattr("trellis_jobs.worker.host.WorkerHost.start", fail)
    with pytest.raises(InfrastructureError, match="cannot be made"):
        async with connected_service(shop.service, workers=True):
            pytest.fail("workers were started")
    assert shop.done == [*OPENED, *CLOSED]


async def test_a_start_that_is_cancelled_leaves_nothing_open(
    connected_service: ConnectService,
) -> None:
    shop, opening = Shop(), asyncio.Event()

    @shop.service.lifespan
    @asynccontextmanager
    async def endless() -> AsyncIterator[None]:
        opening.set()
        await asyncio.Event().wait()
        yield

    async def start() -> None:
        async with connected_service(shop.service, workers=True):
            pytest.fail("workers were started")

    starting = asyncio.create_task(start())
    await opening.wait()
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    assert shop.done == [*OPENED, *CLOSED]


async def test_a_resource_that_fails_to_close_costs_no_outcome(
    connected_service: ConnectService, caplog: pytest.LogCaptureFixture
) -> None:
    shop = Shop(frozenset({"close second of shop"}))
    async with connected_service(shop.service, workers=True) as service:
        ref = await service.jobs.pack.create("wait")
        await until(lambda: "start wait" in shop.done)
        shop.go.set()
    assert shop.done == [*OPENED, "start wait", "end wait", *CLOSED], "the others are closed"
    assert "resource 'open_second' failed to close" in caplog.text
    assert "OSError: cannot close second of shop" in caplog.text
    async with connected_service(Service(type(shop.service.jobs))) as other:
        assert (await other.jobs.pack.ref(ref.id).get()).state == "completed"


async def test_a_resource_that_hangs_when_it_is_closed_is_left_behind(
    connected_service: ConnectService,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr("trellis_jobs.service.resources.CLOSE_TIMEOUT", 0.05)
    shop = Shop()

    @shop.service.lifespan
    @asynccontextmanager
    async def endless() -> AsyncIterator[None]:
        yield
        await asyncio.Event().wait()

    async with connected_service(shop.service, workers=True):
        pass
    assert shop.done == [*OPENED, *CLOSED], "the others are closed"
    assert "resource 'endless' did not close within 0.05 s" in caplog.text


def test_sigterm_closes_resources_after_the_jobs(jobs_server: str) -> None:
    worker = subprocess.Popen(
        (sys.executable, "-m", "tests.resources.shop", jobs_server),
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert worker.stdout is not None
        assert worker.stdout.readline() == "ready\n"
        worker.send_signal(signal.SIGTERM)
        printed, _ = worker.communicate(timeout=30)
    finally:
        worker.kill()
        worker.wait()
    assert printed.splitlines() == [*OPENED, *CLOSED]
    assert worker.returncode == 0


async def test_run_handler_and_inline_open_resources_as_a_worker_does() -> None:
    shop = Shop()
    assert await run_handler(shop.service.jobs.pack, "a") == "second of shop"
    assert shop.done == [*OPENED, "start a", "end a", *CLOSED]
    shop.done.clear()
    async with inline(shop.service) as service:
        assert await (await service.jobs.weigh.create("b")).wait() == "first"
    assert shop.done == [*OPENED, *CLOSED]


async def test_two_handlers_that_run_at_once_each_have_their_own_resources() -> None:
    shop = Shop()
    waiting = asyncio.create_task(run_handler(shop.service.jobs.pack, "wait"))
    await until(lambda: "start wait" in shop.done)
    assert await run_handler(shop.service.jobs.pack, "a") == "second of shop"
    assert shop.done.count("close first") == 1
    shop.go.set()
    assert await waiting == "second of shop"


async def test_tests_put_a_fake_in_the_place_of_a_resource() -> None:
    shop = Shop(frozenset({"open first"}))
    with shop.first.override(Database("fake")) as fake:
        assert await run_handler(shop.service.jobs.weigh, "a") == "fake"
        async with inline(shop.service) as service:
            assert await (await service.jobs.weigh.create("b")).wait() == "fake"
        assert fake.is_open, "what a test brings it closes itself"
    assert "open first" not in shop.done
    with pytest.raises(ResourceUnavailable, match=r"`with open_first.override\(value\):`"):
        shop.first.get()


OTHER: Final = example_jobs(
    "other",
    str,
    type(None),
    work={},
)


def not_async(_service: object, _more: object) -> AbstractAsyncContextManager[None]:
    raise NotImplementedError


async def without_decorator() -> AsyncIterator[None]:
    yield


@contextmanager
def sync_decorator() -> Iterator[None]:
    yield


@pytest.mark.parametrize(
    ("opens", "complaint"),
    [
        (without_decorator, "put @asynccontextmanager between"),
        (sync_decorator, "put @asynccontextmanager between"),
        (not_async, "must take the service or nothing"),
    ],
)
def test_a_lifespan_that_cannot_work_is_refused_where_it_is_declared(
    opens: Any, complaint: str
) -> None:
    with pytest.raises(DeclarationError, match=complaint):
        Service(OTHER).lifespan(opens)


async def test_a_lifespan_is_declared_before_the_service_connects() -> None:
    service = Service(OTHER)

    @service.jobs.work.handle
    async def work(_: ActiveJob[str]) -> None:
        pass

    async with inline(service):
        with pytest.raises(DeclarationError, match="before the service connects"):
            service.lifespan(Shop().open_first)
        with pytest.raises(DeclarationError, match="before the service connects"):
            service.around(work)  # type: ignore[type-var]
