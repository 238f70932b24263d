"""Full streams: recognising the server's errors, and waiting for space."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any, Final

from trellis_jobs.infrastructure_errors import StreamFull

if TYPE_CHECKING:
    from collections.abc import Mapping

log = logging.getLogger(__name__)

# The server could not store the message; only the description tells whether a limit is reached.
_STORE_FAILED: Final = 10077
_STREAM_LIMITS: Final = ("maximum bytes", "maximum messages")
_RAISE_LIMIT: Final = "raise the limit of the stream, or let retention remove finished jobs"
_FREE_STORE: Final = (
    "raise max_file_store and max_memory_store in the server's jetstream block or free disk space, "
    "or let retention remove finished jobs"
)
_SERVER_STORAGE: Final = ("the server's JetStream storage is used up", _FREE_STORE)
# By error code; the last two come from requests that reserve space.
_LIMITS: Final[Mapping[int, tuple[str, str]]] = {
    10002: (
        "the JetStream storage of the account is used up",
        "raise the account's JetStream limits, or let retention remove finished jobs",
    ),
    10023: _SERVER_STORAGE,
    10028: _SERVER_STORAGE,
    10047: _SERVER_STORAGE,
}
_RETRY_DELAY: Final = 1.0
_LOG_INTERVAL: Final = 30.0


def full_stream(stream: str, error: Mapping[str, Any]) -> StreamFull | None:
    """Returns the error for a full stream, or None for another JetStream error."""
    code, description = int(error.get("err_code", 0)), str(error.get("description", ""))
    if code == _STORE_FAILED and description.startswith(_STREAM_LIMITS):
        return StreamFull(stream, description, _RAISE_LIMIT, code)
    if code in _LIMITS:
        limit, remedy = _LIMITS[code]
        return StreamFull(stream, limit, remedy, code)
    return None


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
