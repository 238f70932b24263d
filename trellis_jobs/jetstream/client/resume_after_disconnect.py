"""Resumes a read after an outage from where it broke off, and logs each outage once."""

from __future__ import annotations

import asyncio
import logging
from contextlib import aclosing
from typing import TYPE_CHECKING, Final, TypeVar

from trellis_jobs.errors import InfrastructureError, JetStreamNotReady, NotConfirmed
from trellis_jobs.jetstream.client.connection import ConnectionLost
from trellis_jobs.jetstream.client.pull_consumer import PullBroken

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable

    from trellis_jobs.jetstream.client.connection import Connection

log = logging.getLogger(__name__)

_RETRY_DELAY: Final = 0.25

T = TypeVar("T")


async def resume_after_disconnect(
    connection: Connection,
    what: str,
    read: Callable[[], AsyncGenerator[T, None]],
    *,
    retry_if_missing: Callable[[], bool],
) -> AsyncGenerator[T, None]:
    """Yields what `read` yields, and calls it again whenever it breaks off.

    `read` must continue from its own position. `retry_if_missing` decides whether a missing stream
    or consumer is waited for or raised; a cluster without a leader is always waited for. A broken
    pull is not an outage if the next one works.
    """
    outage_is_logged = False
    while True:
        await connection.wait_until_connected()
        try:
            async with aclosing(read()) as found:
                async for each in found:
                    outage_is_logged = False
                    yield each
        except (ConnectionLost, NotConfirmed, InfrastructureError) as error:
            is_outage = isinstance(error, JetStreamNotReady)
            is_missing = isinstance(error, InfrastructureError) and not is_outage
            if connection.is_closed or (is_missing and not retry_if_missing()):
                raise
            if not outage_is_logged and not isinstance(error, PullBroken):
                log.warning(
                    "%s cannot be read, retrying every %g s: %s",
                    what,
                    _RETRY_DELAY,
                    error,
                    extra={"error": str(error)},
                )
                outage_is_logged = True
            await asyncio.sleep(_RETRY_DELAY)
