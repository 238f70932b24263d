"""Where the board is shown: a live screen on a terminal, otherwise one line per event."""

from __future__ import annotations

import asyncio
import logging
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from rich.live import Live

from trellis_jobs.cli.dev.screen import Surface, draw
from trellis_jobs.cli.logs import TextLines
from trellis_jobs.cli.showing.event_lines import event_line

if TYPE_CHECKING:
    from collections.abc import AsyncIterable, Iterator

    from rich.console import Console

    from trellis_jobs.cli.dev.board import Board
    from trellis_jobs.model.job import Entry

_FRAME_SECONDS: Final = 0.125


async def show_lines(console: Console, board: Board, entries: AsyncIterable[Entry]) -> None:
    async for entry in entries:
        job = board.take(entry)
        if job is not None:
            console.print(event_line(entry.event, job), soft_wrap=True)


async def show_screen(
    console: Console, board: Board, entries: AsyncIterable[Entry], heading: str
) -> None:
    async def keep_drawing(live: Live) -> None:
        while True:
            surface = Surface(heading, "Ctrl-C stops", datetime.now(UTC), console.size.height)
            live.update(draw(board, surface), refresh=True)
            await asyncio.sleep(_FRAME_SECONDS)

    with _logs_as_notices(board), Live(console=console, screen=True, auto_refresh=False) as live:
        drawing = asyncio.create_task(keep_drawing(live))
        try:
            async for entry in entries:
                board.take(entry)
        finally:
            drawing.cancel()


@contextmanager
def _logs_as_notices(board: Board) -> Iterator[None]:
    """A log line on stderr would tear the screen."""
    notices = _Notices(board)
    root = logging.getLogger()
    before, root.handlers = root.handlers, [notices]
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
        self._board.notices.append(self.format(record).splitlines()[0])
