"""A session of `dev`: start the server, the admin runtime, the apps and the view; stop them."""

from __future__ import annotations

import asyncio
import signal
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from jobs_admin.cli.dev.apps import Apps
from jobs_admin.cli.dev.state import DevState
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
    from collections.abc import AsyncIterator, Coroutine, Sequence

    from jobs_admin.cli.dev.console import DevConsole
    from jobs_admin.cli.dev.environment import DevEnvironment

DEMO: Final = "trellis_jobs.demo:service"
_POLLS: Final = 25
_POLL_INTERVAL: Final = 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """`rate` is the number of demo jobs per second; None without demo jobs."""

    environment: AbstractAsyncContextManager[DevEnvironment]
    apps: Sequence[str]
    reload: bool
    rate: float | None
    console: DevConsole | None = None

    async def run(self) -> None:
        set_up_logs(LogFormat.TEXT, LogLevel.WARNING)
        screen = console()
        stop = asyncio.Event()
        with handle_signals({signal.SIGTERM: stop.set, signal.SIGINT: stop.set}):
            async with self.environment as found, self._console(found) as environment:
                view = view_of(screen, environment, since=datetime.now(UTC))
                await self._run_until(stop, environment, view)
        screen.print(_summary(view.state), style="dim", soft_wrap=True)

    @asynccontextmanager
    async def _console(self, environment: DevEnvironment) -> AsyncIterator[DevEnvironment]:
        """Without the packages of the console, the rest works."""
        if self.console is None:
            yield environment
            return
        async with self.console.running(environment.options.connect_options()) as where:
            yield replace(environment, console=where)

    async def _run_until(
        self, stop: asyncio.Event, environment: DevEnvironment, view: View
    ) -> None:
        """Stop the apps before the view, so that it shows how they end."""
        showing = asyncio.create_task(_show(environment, view))
        working = [asyncio.create_task(each) for each in self._work(environment, view.state)]
        stopping = asyncio.create_task(stop.wait())
        try:
            tasks = {showing, stopping, *working}
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            ends = await _end(*working)
            await _last_events(view.state)
            ends += await _end(showing, stopping)
        for end in ends:
            if isinstance(end, Exception):
                raise end

    def _work(
        self, environment: DevEnvironment, state: DevState
    ) -> list[Coroutine[Any, Any, None]]:
        work: list[Coroutine[Any, Any, None]] = []
        if self.apps:
            variables = environment.options.environment()
            work.append(Apps(self.apps, state, variables, reload=self.reload).run())
        if self.rate is not None:
            work.append(_create(environment, self.rate))
        return work


async def _create(environment: DevEnvironment, rate: float) -> None:
    async with demo.service.connect(environment.options.connect_options(), workers=False):
        await keep_creating(demo.service.jobs, rate)


async def _show(environment: DevEnvironment, view: View) -> None:
    """Show the events of all services, which may be developed together."""
    events = Histories(environment.connection).follow(subjects.of_service("*"))
    async with aclosing(events) as entries:
        await view.show(entries)


async def _end(*tasks: asyncio.Task[Any]) -> list[Any]:
    for task in tasks:
        task.cancel()
    return await asyncio.gather(*tasks, return_exceptions=True)


async def _last_events(state: DevState) -> None:
    """The workers have stored the last events by now, but they take a moment to arrive."""
    for _ in range(_POLLS):
        if not state.totals()[JobState.ACTIVE]:
            return
        await asyncio.sleep(_POLL_INTERVAL)


def _summary(state: DevState) -> str:
    totals = state.totals()
    counted = ", ".join(f"{totals[each]} {each}" for each in JobState if totals[each])
    return f"stopped after {how_many(totals.total())}: {counted or 'none'}"
