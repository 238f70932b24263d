"""Reading on through outages: from where it broke off, and said once however long it takes."""

from __future__ import annotations

import asyncio
import logging
from contextlib import aclosing
from typing import TYPE_CHECKING, Final, TypeVar

from trellis_jobs.errors import InfrastructureError, NotConfirmed
from trellis_jobs.jetstream.client.connection import ConnectionLost
from trellis_jobs.jetstream.client.pull_consumer import PullBroken

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable

    from trellis_jobs.jetstream.client.connection import Connection

log = logging.getLogger(__name__)

_PAUSE: Final = 0.25

T = TypeVar("T")


async def resume_after_disconnect(
    connection: Connection,
    what: str,
    read_on: Callable[[], AsyncGenerator[T, None]],
    *,
    may_come_back: Callable[[], bool],
) -> AsyncGenerator[T, None]:
    """What `read_on` yields, called again whenever it breaks off: it knows how far it came.

    `may_come_back`: whether to wait for what is missing on the server, or to raise that. A pull
    that broke is no outage as long as the next one works.
    """
    is_out = False
    while True:
        await connection.until_up()
        try:
            async with aclosing(read_on()) as found:
                async for each in found:
                    is_out = False
                    yield each
        except (ConnectionLost, NotConfirmed, InfrastructureError) as error:
            is_missing = isinstance(error, InfrastructureError)
            if connection.is_closed or (is_missing and not may_come_back()):
                raise
            if not is_out and not isinstance(error, PullBroken):
                log.warning(
                    "%s cannot be read, retrying every %g s: %s",
                    what,
                    _PAUSE,
                    error,
                    extra={"error": str(error)},
                )
                is_out = True
            await asyncio.sleep(_PAUSE)
