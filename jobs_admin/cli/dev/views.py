"""Where the board is shown: a live screen on a terminal, otherwise one line per event."""

from __future__ import annotations

import asyncio
import logging
import sys
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, Protocol

from rich.live import Live

from jobs_admin.cli.dev.news_lines import news_lines
from jobs_admin.cli.dev.screen import Surface, draw
from jobs_admin.cli.dev.state import Board
from jobs_admin.cli.logs import TextLines

if TYPE_CHECKING:
    from collections.abc import AsyncIterable, Iterator

    from rich.console import Console

    from jobs_admin.cli.dev.environment import Ground
    from jobs_admin.cli.dev.state import Happened, Notice
    from trellis_jobs.model.job import Entry

_FRAME_SECONDS: Final = 0.125


class View(Protocol):
    board: Board

    async def show(self, entries: AsyncIterable[Entry]) -> None: ...


def view_of(console: Console, ground: Ground, since: datetime) -> View:
    """What should stay when the screen is gone is printed before it comes."""
    for line in (ground.heading, ground.hint):
        console.print(line, soft_wrap=True)
    return ScreenView(console, ground, since) if sys.stdout.isatty() else LineView(console, since)


class LineView:
    def __init__(self, console: Console, since: datetime) -> None:
        self.board = Board(since, on_news=self._print)
        self._console = console

    async def show(self, entries: AsyncIterable[Entry]) -> None:
        async for entry in entries:
            self.board.take(entry)

    def _print(self, news: Happened | Notice) -> None:
        for line in news_lines(news):
            self._console.print(line, soft_wrap=True)


class ScreenView:
    def __init__(self, console: Console, ground: Ground, since: datetime) -> None:
        self.board = Board(since)
        self._console = console
        self._ground = ground

    async def show(self, entries: AsyncIterable[Entry]) -> None:
        with (
            _logs_as_notices(self.board),
            Live(console=self._console, screen=True, auto_refresh=False) as live,
        ):
            drawing = asyncio.create_task(self._keep_drawing(live))
            try:
                async for entry in entries:
                    self.board.take(entry)
            finally:
                drawing.cancel()

    async def _keep_drawing(self, live: Live) -> None:
        while True:
            live.update(draw(self.board, self._surface()), refresh=True)
            await asyncio.sleep(_FRAME_SECONDS)

    def _surface(self) -> Surface:
        return Surface(
            heading=self._ground.heading,
            hint=self._ground.hint,
            now=datetime.now(UTC),
            width=self._console.size.width,
            height=self._console.size.height,
        )


@contextmanager
def _logs_as_notices(board: Board) -> Iterator[None]:
    """A log line on stderr would tear the screen."""
    root = logging.getLogger()
    before, root.handlers = root.handlers, [_Notices(board)]
    try:
        yield
    finally:
        root.handlers = before


class _Notices(logging.Handler):
    def __init__(self, board: Board) -> None:
        super().__init__(logging.WARNING)
        self.setFormatter(TextLines(coloured=False))
        self._board = board

    def emit(self, record: logging.LogRecord) -> None:
        words = self.format(record).splitlines()[0]
        self._board.tell("dev", words, is_alarm=record.levelno >= logging.ERROR)
