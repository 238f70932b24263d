"""Many open pages: their number is bounded, and a client that does not read loses its stream."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.requests import Request
from starlette.types import Message

from jobs_admin.api.views.changes import ChangesView
from jobs_admin.console.auth.password_hash import TokenHash
from jobs_admin.console.auth.settings import SignInKind, SignInSettings
from jobs_admin.console.event_stream import MAX_STREAMS_PER_USER, EventStreams
from jobs_admin.console.hint_stream import HintStreams
from jobs_admin.console.live import LiveHints
from jobs_admin.console.users import ALL_ROLES, User
from tests.console.installation import ConsoleInstallation, console_at
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

    def __init__(self, hints: HintStreams, query: str = "topics=all", user: str = "ann") -> None:
        self.hints = hints
        self.query = query
        self.user = User(user, ALL_ROLES)
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
            "user": self.user,
        }
        response = await self.hints.open(Request(scope))
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
    streams = EventStreams(send_timeout=0.05)
    hints = HintStreams(LiveHints(log.changes), streams)
    slow, quick = Reader(hints), Reader(hints)
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
    streams = EventStreams(max_streams=3)
    hints = HintStreams(LiveHints(Log().changes), streams)
    readers = [Reader(hints) for _ in range(3)]
    tasks = [asyncio.create_task(each.run()) for each in readers]
    await until(lambda: streams.open_streams == 3, "all are open")
    refused = Reader(hints)
    await refused.run()
    assert refused.sent[0]["status"] == 503
    assert "reload it" in refused.text
    for reader in readers:
        reader.leaves.set()
    await asyncio.gather(*tasks)
    assert streams.open_streams == 0


async def test_a_user_cannot_take_the_streams_of_others() -> None:
    streams = EventStreams(max_per_user=2)
    hints = HintStreams(LiveHints(Log().changes), streams)
    readers = [Reader(hints, user=name) for name in ("ann", "ann", "bob")]
    tasks = [asyncio.create_task(each.run()) for each in readers]
    await until(lambda: streams.open_streams == 3, "all are open")
    refused = Reader(hints, user="ann")
    await refused.run()
    assert refused.sent[0]["status"] == 503
    assert "ann has 2 pages open" in refused.text
    for reader in readers:
        reader.leaves.set()
    await asyncio.gather(*tasks)


async def test_a_stream_ends_after_a_while_so_that_its_user_signs_in_again() -> None:
    log = Log()
    reader = Reader(HintStreams(LiveHints(log.changes), EventStreams(lifetime=0)))
    running = asyncio.create_task(reader.run())
    await until(lambda: "retry" in reader.text, "it is open")
    log.changed.set()
    await running
    assert "data: 1" in reader.text
    assert not reader.sent[-1]["more_body"]


async def test_a_page_that_was_made_before_a_change_is_told_of_it() -> None:
    log = Log()
    live = LiveHints(log.changes)
    streams = EventStreams()
    hints = HintStreams(live, streams)
    first = Reader(hints)
    late = Reader(hints, f"topics=all&after={live.sequence}")
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


@pytest.mark.asyncio(loop_scope="session")
async def test_the_live_tail_and_the_hints_have_one_limit_per_user(
    shop: ConsoleInstallation, tmp_path: Path
) -> None:
    users = tmp_path / "users"
    users.write_text(
        f"token ann viewer {TokenHash.of('a')}\ntoken bob viewer {TokenHash.of('b')}\n"
    )
    sign_in = SignInSettings(kinds=(SignInKind.TOKEN,), users=users)
    async with (
        console_at(shop.url, sign_in=sign_in) as address,
        httpx.AsyncClient(base_url=address, timeout=20, trust_env=False) as web,
        AsyncExitStack() as opened,
    ):

        async def status(path: str, token: str) -> int:
            headers = {"authorization": f"Bearer {token}"}
            reply = await opened.enter_async_context(web.stream("GET", path, headers=headers))
            return reply.status_code

        tails = [await status("/live/events?after=0", "a") for _ in range(MAX_STREAMS_PER_USER)]
        assert set(tails) == {200}
        assert await status("/live/events?after=0", "a") == 503
        assert await status("/hints?topics=all", "a") == 503
        assert await status("/live/events?after=0", "b") == 200
