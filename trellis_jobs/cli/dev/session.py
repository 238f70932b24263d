"""One `dev` from start to end: server, service, traffic, view; and everything back again."""

from __future__ import annotations

import asyncio
import signal
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from rich.console import Console

from trellis_jobs import demo
from trellis_jobs.cli.dev.board import Board
from trellis_jobs.cli.dev.traffic import keep_creating
from trellis_jobs.cli.dev.views import show_lines, show_screen
from trellis_jobs.cli.logs import LogFormat, LogLevel, set_up_logs
from trellis_jobs.embedded import EmbeddedServer
from trellis_jobs.jetstream.access import Access
from trellis_jobs.jetstream.connection import Connection
from trellis_jobs.jetstream.history import Histories
from trellis_jobs.model import subjects
from trellis_jobs.model.states import JobState
from trellis_jobs.worker.signals import listening

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

_GRACE: Final = 0.5
_LOOKS: Final = 25
_LOOK: Final = 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """With no `access` it has a server of its own, in `data` or in a folder that goes with it."""

    access: Access | None
    data: Path | None
    rate: float

    async def run(self) -> None:
        set_up_logs(LogFormat.TEXT, LogLevel.WARNING)
        console = Console(highlight=False)
        board = Board(demo.service.contract.queues, since=datetime.now(UTC))
        enough = asyncio.Event()
        with listening({signal.SIGTERM: enough.set, signal.SIGINT: enough.set}):
            async with self._server() as access, self._watching(access) as connection:
                await self._play(connection, access, console, board, enough)
        console.print(_summary(board), style="dim", soft_wrap=True)

    async def _play(
        self,
        watching: Connection,
        access: Access,
        console: Console,
        board: Board,
        enough: asyncio.Event,
    ) -> None:
        heading = f"trellis-jobs dev   {access}   nats-server {watching.server_version}"
        async with demo.service.connect(access):
            view = asyncio.create_task(_show(console, board, watching, heading))
            traffic = asyncio.create_task(keep_creating(demo.service.jobs, self.rate))
            asked = asyncio.create_task(enough.wait())
            try:
                await asyncio.wait({view, traffic, asked}, return_when=asyncio.FIRST_COMPLETED)
                traffic.cancel()
                await demo.service.stop(_GRACE)
                await _last_news(board)
            finally:
                for task in (view, traffic, asked):
                    task.cancel()
                await asyncio.gather(view, traffic, asked, return_exceptions=True)
        for task in (view, traffic):
            if not task.cancelled():
                task.result()

    @asynccontextmanager
    async def _server(self) -> AsyncIterator[Access]:
        if self.access is not None:
            yield self.access
            return
        server = await asyncio.to_thread(EmbeddedServer.start, store=self.data)
        try:
            yield Access(servers=server.url)
        finally:
            await asyncio.to_thread(server.stop)

    @asynccontextmanager
    async def _watching(self, access: Access) -> AsyncIterator[Connection]:
        connection = await Connection.open(access, name="jobs dev", insist=False)
        try:
            yield connection
        finally:
            await connection.close()


async def _show(console: Console, board: Board, watching: Connection, heading: str) -> None:
    entries = Histories(watching).follow(subjects.of_service(demo.service.name))
    if console.is_terminal:
        await show_screen(console, board, entries, heading)
    else:
        console.print(heading, soft_wrap=True)
        await show_lines(console, board, entries)


async def _last_news(board: Board) -> None:
    """The end of a job is in the log before its worker ends, but takes a moment to be seen."""
    for _ in range(_LOOKS):
        if not board.totals()[JobState.ACTIVE]:
            return
        await asyncio.sleep(_LOOK)


def _summary(board: Board) -> str:
    totals = board.totals()
    counted = ", ".join(f"{totals[state]} {state}" for state in JobState if totals[state])
    return f"stopped after {totals.total()} jobs: {counted or 'none'}"
