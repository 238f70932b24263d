"""One `dev` from start to end: server, admin runtime, apps, view; and everything back again."""

from __future__ import annotations

import asyncio
import signal
from contextlib import AbstractAsyncContextManager, aclosing
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from jobs_admin.cli.dev.apps import Apps
from jobs_admin.cli.dev.state import Board
from jobs_admin.cli.dev.traffic import keep_creating
from jobs_admin.cli.dev.views import View, view_of
from jobs_admin.cli.logs import LogFormat, LogLevel, set_up_logs
from jobs_admin.cli.render.counts import how_many
from jobs_admin.cli.render.output import console
from trellis_jobs import demo
from trellis_jobs.jetstream.log.history import Histories
from trellis_jobs.model import subjects
from trellis_jobs.model.states import JobState
from trellis_jobs.worker.signals import handle_signals

if TYPE_CHECKING:
    from collections.abc import Coroutine, Sequence

    from jobs_admin.cli.dev.environment import Ground

DEMO: Final = "trellis_jobs.demo:service"
_LOOKS: Final = 25
_LOOK: Final = 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """`rate`: demo jobs per second, if any."""

    ground: AbstractAsyncContextManager[Ground]
    apps: Sequence[str]
    reload: bool
    rate: float | None

    async def run(self) -> None:
        set_up_logs(LogFormat.TEXT, LogLevel.WARNING)
        shown_on = console()
        enough = asyncio.Event()
        with handle_signals({signal.SIGTERM: enough.set, signal.SIGINT: enough.set}):
            async with self.ground as ground:
                view = view_of(shown_on, ground, since=datetime.now(UTC))
                await self._play(ground, view, enough)
        shown_on.print(_summary(view.board), style="dim", soft_wrap=True)

    async def _play(self, ground: Ground, view: View, enough: asyncio.Event) -> None:
        """Whoever works stops first, and is seen to: the view is the last to go."""
        showing = asyncio.create_task(_show(ground, view))
        working = [asyncio.create_task(each) for each in self._work(ground, view.board)]
        asked = asyncio.create_task(enough.wait())
        try:
            everything = {showing, asked, *working}
            await asyncio.wait(everything, return_when=asyncio.FIRST_COMPLETED)
        finally:
            ends = await _end(*working)
            await _last_news(view.board)
            ends += await _end(showing, asked)
        for end in ends:
            if isinstance(end, Exception):
                raise end

    def _work(self, ground: Ground, board: Board) -> list[Coroutine[Any, Any, None]]:
        work: list[Coroutine[Any, Any, None]] = []
        if self.apps:
            environment = ground.reach.environment()
            work.append(Apps(self.apps, board, environment, reload=self.reload).run())
        if self.rate is not None:
            work.append(_create(ground, self.rate))
        return work


async def _create(ground: Ground, rate: float) -> None:
    async with demo.service.connect(ground.reach.access(), workers=False):
        await keep_creating(demo.service.jobs, rate)


async def _show(ground: Ground, view: View) -> None:
    """The events of all services: dev is for those that are tried together."""
    events = Histories(ground.connection).follow(subjects.of_service("*"))
    async with aclosing(events) as entries:
        await view.show(entries)


async def _end(*tasks: asyncio.Task[Any]) -> list[Any]:
    for task in tasks:
        task.cancel()
    return await asyncio.gather(*tasks, return_exceptions=True)


async def _last_news(board: Board) -> None:
    """The end of a job is in the log before its worker ends, but takes a moment to be seen."""
    for _ in range(_LOOKS):
        if not board.totals()[JobState.ACTIVE]:
            return
        await asyncio.sleep(_LOOK)


def _summary(board: Board) -> str:
    totals = board.totals()
    counted = ", ".join(f"{totals[state]} {state}" for state in JobState if totals[state])
    return f"stopped after {how_many(totals.total())}: {counted or 'none'}"
