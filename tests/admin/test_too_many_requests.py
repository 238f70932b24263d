"""More is asked than can be answered: what is too much is refused, and the daemon stays well."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Final

import pytest

from jobs_admin.api.errors import Busy
from jobs_admin.api.views.health import HealthStatus
from jobs_admin.api.views.jobs import JobPage
from jobs_admin.reads.readers import READERS
from tests.admin.admin_lab import AdminLab, stranger_at
from tests.support.facts import until
from trellis_jobs.embedded import EmbeddedServer
from trellis_jobs.jetstream.client.rpc import Reply, Request, RpcServer

TAKEN: Final = 320
MEGABYTE: Final = b"x" * 1_000_000


@asynccontextmanager
async def every_reader_busy(lab: AdminLab) -> AsyncIterator[None]:
    """As with questions that look at every job."""
    async with AsyncExitStack() as held:
        for _ in range(READERS):
            await held.enter_async_context(lab.daemon.readers.snapshot())
        yield


async def test_requests_beyond_those_that_may_wait_are_refused_at_once(lab: AdminLab) -> None:
    async with every_reader_busy(lab):
        asked = [asyncio.create_task(lab.client.list_jobs()) for _ in range(TAKEN + 50)]
        await until(lambda: sum(each.done() for each in asked) == 50, "fifty are refused")
        refused = [each.exception() for each in asked if each.done()]
    said = await asyncio.gather(*asked, return_exceptions=True)
    assert all(isinstance(each, Busy) and "try again" in str(each) for each in refused)
    assert sum(isinstance(each, JobPage) for each in said) == TAKEN
    assert (await lab.client.list_jobs()).count == 0


async def test_large_requests_are_refused_before_they_fill_the_memory(
    server: EmbeddedServer,
) -> None:
    go, taken = asyncio.Event(), []

    async def slowly(request: Request) -> Reply:
        taken.append(len(request.data))
        await go.wait()
        return Reply(b"answered")

    async with stranger_at(server.url) as answering, stranger_at(server.url) as waiting_pulls:
        rpc_server = RpcServer(answering.connection, slowly, lambda _: Reply(b"busy"))
        await rpc_server.open("rpc.v1.Jobs.*", group="admin")
        sent = [asyncio.create_task(waiting_pulls.send("Jobs.List", MEGABYTE)) for _ in range(20)]
        await until(lambda: sum(each.done() for each in sent) == 4, "four are refused")
        assert {each.result().data for each in sent if each.done()} == {b"busy"}
        go.set()
        assert [reply.data for reply in await asyncio.gather(*sent)].count(b"answered") == 16
        assert len(taken) == 16
        assert (await waiting_pulls.send("Jobs.List", MEGABYTE)).data == b"answered"
        await rpc_server.close()


@pytest.mark.parametrize("way", ["probe", "request"])
async def test_it_is_ready_while_questions_that_take_long_keep_every_reader_busy(
    lab: AdminLab, way: str
) -> None:
    async with every_reader_busy(lab):
        if way == "probe":
            assert (await lab.daemon.health.report()).is_ready
        else:
            assert (await lab.client.health()).status is HealthStatus.OK
