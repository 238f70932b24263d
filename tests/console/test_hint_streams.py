"""Many open pages: their number is bounded, and a client that does not read loses its stream."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest
from starlette.requests import Request
from starlette.types import Message

from jobs_admin.api.views.changes import ChangesView
from jobs_admin.console.hint_stream import HintStreams
from jobs_admin.console.live import LiveHints
from tests.console.installation import ConsoleInstallation
from tests.support.example_service import Task
from tests.support.facts import until


class Log:
    """What `Jobs.Changes` answers; `changed` lets it answer."""

    def __init__(self) -> None:
        self.seq = 0
        self.changed = asyncio.Event()

    async def changes(self, _after: int, _wait: float) -> ChangesView:
        await self.changed.wait()
        self.changed.clear()
        self.seq += 1
        return ChangesView(seq=self.seq)


class Reader:
    """A client of one stream: what was sent to it. It is slow while `may_read` is not set."""

    def __init__(self, streams: HintStreams, query: str = "topics=all") -> None:
        self.streams = streams
        self.query = query
        self.sent: list[Message] = []
        self.may_read = asyncio.Event()
        self.may_read.set()
        self.leaves = asyncio.Event()

    async def run(self) -> None:
        scope: dict[str, Any] = {
            "type": "http",
            "method": "GET",
            "path": "/hints",
            "query_string": self.query.encode(),
            "headers": [],
        }
        response = await self.streams.open(Request(scope))
        await response(scope, self._receive, self._send)

    async def _receive(self) -> Message:
        await self.leaves.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: Message) -> None:
        await self.may_read.wait()
        self.sent.append(message)

    @property
    def text(self) -> str:
        return b"".join(each.get("body", b"") for each in self.sent).decode()


async def test_a_client_that_does_not_read_loses_its_stream() -> None:
    log = Log()
    streams = HintStreams(LiveHints(log.changes), send_timeout=0.05)
    slow, quick = Reader(streams), Reader(streams)
    tasks = [asyncio.create_task(each.run()) for each in (slow, quick)]
    await until(lambda: streams.open_streams == 2 and "retry" in slow.text, "both are open")
    slow.may_read.clear()
    log.changed.set()
    await until(lambda: streams.open_streams == 1, "the slow one is closed")
    await tasks[0]
    assert "id: 1\ndata: 1\n\n" in quick.text
    quick.leaves.set()
    await tasks[1]
    assert streams.open_streams == 0


async def test_there_are_no_more_streams_than_allowed() -> None:
    streams = HintStreams(LiveHints(Log().changes), max_streams=3)
    readers = [Reader(streams) for _ in range(3)]
    tasks = [asyncio.create_task(each.run()) for each in readers]
    await until(lambda: streams.open_streams == 3, "all are open")
    refused = Reader(streams)
    await refused.run()
    assert refused.sent[0]["status"] == 503
    assert "reload it" in refused.text
    for reader in readers:
        reader.leaves.set()
    await asyncio.gather(*tasks)
    assert streams.open_streams == 0


async def test_a_page_that_was_made_before_a_change_is_told_of_it() -> None:
    log = Log()
    live = LiveHints(log.changes)
    streams = HintStreams(live)
    first = Reader(streams)
    late = Reader(streams, f"topics=all&after={live.sequence}")
    tasks = [asyncio.create_task(first.run())]
    await until(lambda: streams.open_streams == 1, "the first is open")
    log.changed.set()
    await until(lambda: "data: 1" in first.text, "the first is told")
    tasks.append(asyncio.create_task(late.run()))
    await until(lambda: "data: 1" in late.text, "the second is told what it missed")
    for reader in (first, late):
        reader.leaves.set()
    await asyncio.gather(*tasks)


@pytest.mark.asyncio(loop_scope="session")
async def test_many_pages_get_hints_at_once(shop: ConsoleInstallation) -> None:
    async with httpx.AsyncClient(base_url=shop.address, timeout=20, trust_env=False) as web:

        async def first_hint(started: asyncio.Semaphore) -> str:
            async with web.stream("GET", "/hints?topics=queue:shop/work") as stream:
                started.release()
                async for line in stream.aiter_lines():
                    if line.startswith("data: "):
                        return line
            return ""

        started = asyncio.Semaphore(0)
        pages = [asyncio.create_task(first_hint(started)) for _ in range(30)]
        for _ in pages:
            await started.acquire()
        await shop.queues.work.create(Task())
        assert all(await asyncio.gather(*pages))
