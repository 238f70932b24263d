"""The views of `dev`: a live screen on a terminal, otherwise one line per event."""

from __future__ import annotations

import asyncio
import logging
import sys
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, Protocol

from rich.live import Live

from jobs_admin.cli.dev.news_lines import news_lines
from jobs_admin.cli.dev.screen import Frame, draw
from jobs_admin.cli.dev.state import DevState
from jobs_admin.cli.logs import TextLines

if TYPE_CHECKING:
    from collections.abc import AsyncIterable, Iterator

    from rich.console import Console

    from jobs_admin.cli.dev.environment import DevEnvironment
    from jobs_admin.cli.dev.state import JobEvent, Notice
    from trellis_jobs.model.job import Entry

_FRAME_SECONDS: Final = 0.125


class View(Protocol):
    state: DevState

    async def show(self, entries: AsyncIterable[Entry]) -> None: ...


def view_of(console: Console, environment: DevEnvironment, since: datetime) -> View:
    """Print the heading first, so that it remains visible after the live screen."""
    for line in (environment.heading, *environment.hints):
        console.print(line, soft_wrap=True)
    return (
        ScreenView(console, environment, since) if sys.stdout.isatty() else LineView(console, since)
    )


class LineView:
    def __init__(self, console: Console, since: datetime) -> None:
        self.state = DevState(since, on_news=self._print)
        self._console = console

    async def show(self, entries: AsyncIterable[Entry]) -> None:
        async for entry in entries:
            self.state.apply(entry)

    def _print(self, news: JobEvent | Notice) -> None:
        for line in news_lines(news):
            self._console.print(line, soft_wrap=True)


class ScreenView:
    def __init__(self, console: Console, environment: DevEnvironment, since: datetime) -> None:
        self.state = DevState(since)
        self._console = console
        self._environment = environment

    async def show(self, entries: AsyncIterable[Entry]) -> None:
        with (
            _logs_as_notices(self.state),
            Live(console=self._console, screen=True, auto_refresh=False) as live,
        ):
            drawing = asyncio.create_task(self._keep_drawing(live))
            try:
                async for entry in entries:
                    self.state.apply(entry)
            finally:
                drawing.cancel()

    async def _keep_drawing(self, live: Live) -> None:
        while True:
            live.update(draw(self.state, self._frame()), refresh=True)
            await asyncio.sleep(_FRAME_SECONDS)

    def _frame(self) -> Frame:
        return Frame(
            heading=self._environment.heading,
            hints=self._environment.hints,
            now=datetime.now(UTC),
            width=self._console.size.width,
            height=self._console.size.height,
        )


@contextmanager
def _logs_as_notices(state: DevState) -> Iterator[None]:
    """A log line on stderr would corrupt the live screen."""
    root = logging.getLogger()
    before, root.handlers = root.handlers, [_Notices(state)]
    try:
        yield
    finally:
        root.handlers = before


class _Notices(logging.Handler):
    def __init__(self, state: DevState) -> None:
        super().__init__(logging.WARNING)
        self.setFormatter(TextLines(coloured=False))
        self._state = state

    def emit(self, record: logging.LogRecord) -> None:
        text = self.format(record).splitlines()[0]
        self._state.add_notice("dev", text, is_error=record.levelno >= logging.ERROR)
