"""A worker starts before its server, and no handler ends it.

Before, it gave up after 5 s without a server (exit code 4), and a handler that raised
KeyboardInterrupt ended worker after worker, as each redelivery killed the next one.
"""

from __future__ import annotations

import asyncio
import signal
import socket
from pathlib import Path

import pytest

from tests.cli import interrupted_shop
from tests.cli.command import running
from tests.support.example_service import Task
from tests.support.facts import until
from tests.support.lab import producer
from trellis_jobs import JobDead, Unreachable
from trellis_jobs.embedded import EmbeddedServer
from trellis_jobs.errors import JetStreamNotReady

SHOP = "tests.cli.interrupted_shop:service"
ALONE_IN_A_CLUSTER = """
    server_name: one
    cluster { name: half, listen: "127.0.0.1:-1", routes: [ "nats://127.0.0.1:1" ] }
"""


@pytest.fixture
def free_port() -> int:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        port: int = listening.getsockname()[1]
        return port


async def test_what_a_handler_raises_ends_its_attempt_and_ctrl_c_the_worker(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    with running(tmp_path, "worker", SHOP, "--nats", server.url) as worker:
        await worker.until_prints("worker started")
        service = interrupted_shop.service
        async with service.connect(server.url, workers=False):
            for queue in (service.jobs.in_loop, service.jobs.in_thread):
                for what, raised in (
                    ("interrupt", "KeyboardInterrupt"),
                    ("exit", "SystemExit: 7"),
                ):
                    ref = await queue.create(what)
                    with pytest.raises(JobDead, match=raised):
                        await ref.wait(timeout=20)
                    [error] = (await ref.get()).errors
                    assert error.type == raised.partition(":")[0]
                assert await (await queue.create("fine")).wait(timeout=20) == "fine"
        assert worker.process.poll() is None
        worker.send(signal.SIGINT)
        assert await worker.until_exit() == 0


async def test_worker_and_admin_wait_for_their_server(tmp_path: Path, free_port: int) -> None:
    url = f"nats://127.0.0.1:{free_port}"
    for name in ("worker", "admin"):
        (tmp_path / name).mkdir()
    db = str(tmp_path / "jobs.sqlite")
    with (
        running(tmp_path / "worker", "worker", SHOP, "--nats", url) as worker,
        running(
            tmp_path / "admin", "admin", "serve", "--nats", url, "--provision", "--db", db
        ) as admin,
    ):
        for waiting in (worker, admin):
            await waiting.until_prints("not started yet: no NATS server answers")
        server = await asyncio.to_thread(EmbeddedServer.start, port=free_port)
        try:
            await worker.until_prints("worker started")
            await admin.until_prints("admin runtime started")
            for started in (worker, admin):
                started.send(signal.SIGTERM)
                assert await started.until_exit() == 0
        finally:
            server.stop()


async def test_a_worker_that_waits_can_be_stopped(tmp_path: Path, free_port: int) -> None:
    url = f"nats://127.0.0.1:{free_port}"
    with running(tmp_path, "worker", SHOP, "--nats", url) as worker:
        await worker.until_prints("not started yet")
        worker.send(signal.SIGTERM)
        assert await worker.until_exit() == 0


async def test_an_app_may_wait_or_not(free_port: int) -> None:
    url, service = f"nats://127.0.0.1:{free_port}", interrupted_shop.service
    with pytest.raises(Unreachable):
        async with service.connect(url, workers=False, connect_timeout=0):
            pass

    async def create() -> str:
        async with service.connect(url, workers=False, connect_timeout=None):
            return (await service.jobs.in_loop.create("x")).id

    creating = asyncio.create_task(create())
    server = await asyncio.to_thread(EmbeddedServer.start, port=free_port)
    try:
        assert await asyncio.wait_for(creating, 20)
    finally:
        server.stop()


async def test_jetstream_may_come_later_than_its_server(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A server of a cluster without a leader answers, and its JetStream does not work yet."""
    with EmbeddedServer.start(config=ALONE_IN_A_CLUSTER) as server:
        with pytest.raises(JetStreamNotReady):
            async with interrupted_shop.service.connect(server.url, connect_timeout=0):
                pass

        async def create() -> str:
            async with interrupted_shop.service.connect(
                server.url, workers=False, connect_timeout=None
            ) as service:
                return (await service.jobs.in_loop.create("x")).id

        creating = asyncio.create_task(create())
        await until(lambda: "not started yet" in caplog.text, "it waits for JetStream")
        server._config = ""
        await asyncio.to_thread(server.restart)
        assert await asyncio.wait_for(creating, 30)
        async with producer(server.url) as jobs:
            await jobs.work.create(Task())
