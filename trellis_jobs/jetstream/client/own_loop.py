"""A connection belongs to the event loop that it was opened on."""

from __future__ import annotations

import asyncio

from trellis_jobs.errors import WrongEventLoop


def require_running(loop: asyncio.AbstractEventLoop) -> None:
    """Raises WrongEventLoop on any other loop, where a call would fail inside asyncio or hang."""
    try:
        running = asyncio.get_running_loop()
    except RuntimeError:
        raise WrongEventLoop from None
    if running is not loop:
        raise WrongEventLoop
