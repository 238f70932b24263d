"""The server's time: whatever it stored is as old as that says, whatever our own clock shows."""

from __future__ import annotations

import asyncio
import logging
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

from trellis_jobs.errors import JobsError
from trellis_jobs.jetstream.server_facts import clock_difference

if TYPE_CHECKING:
    from collections.abc import Callable

    from trellis_jobs.jetstream.connection import Connection

log = logging.getLogger(__name__)

_ASK_EVERY: Final = 30.0
_PATIENCE: Final = 2.0
_BEGINNING: Final = datetime(1970, 1, 1, tzinfo=UTC)


class ServerClock:
    """Asked now and then; in between our own steady clock goes on from the last answer."""

    def __init__(self, connection: Connection, uptime: Callable[[], float]) -> None:
        self._connection = connection
        self._uptime = uptime
        self._ahead: timedelta | None = None
        self._asked_at = 0.0

    async def now(self) -> datetime:
        """Raises NotConfirmed and the like only before the first answer."""
        if self._ahead is None:
            self._ahead = await self._ask()
        elif self._uptime() - self._asked_at >= _ASK_EVERY:
            try:
                async with asyncio.timeout(_PATIENCE):
                    self._ahead = await self._ask()
            except (JobsError, TimeoutError) as error:
                log.info(
                    "server time unavailable, using the last known offset: %s",
                    error,
                    extra={"error": str(error)},
                )
        return self._steady() + self._ahead

    async def _ask(self) -> timedelta:
        self._asked_at = self._uptime()
        return await clock_difference(self._connection, self._steady)

    def _steady(self) -> datetime:
        return _BEGINNING + timedelta(seconds=self._uptime())
