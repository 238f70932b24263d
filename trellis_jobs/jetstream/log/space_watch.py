"""Waits while the log is full, and logs that it is."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from trellis_jobs.errors import StreamFull

log = logging.getLogger(__name__)

_RETRY_DELAY: Final = 1.0
_LOG_INTERVAL: Final = 30.0


class SpaceWatch:
    """Logs that events wait for space once per outage and every 30 s, not once per event."""

    def __init__(self) -> None:
        self._now = asyncio.get_running_loop().time
        self._logged_at = -_LOG_INTERVAL
        self._full: StreamFull | None = None

    async def wait(self, full: StreamFull) -> None:
        self._full = full
        if self._now() - self._logged_at >= _LOG_INTERVAL:
            self._logged_at = self._now()
            log.error("%s. Running jobs keep their leases; their events are sent again", full)
        await asyncio.sleep(_RETRY_DELAY)

    def space_is_back(self) -> None:
        if self._full is not None:
            log.warning("stream %s takes messages again", self._full.stream)
            self._full, self._logged_at = None, -_LOG_INTERVAL
