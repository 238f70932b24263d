"""Recognises the server's errors for a full stream, and says what to change."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from trellis_jobs.errors import StreamFull

if TYPE_CHECKING:
    from collections.abc import Mapping

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


def full_stream(stream: str, error: Mapping[str, Any]) -> StreamFull | None:
    """Returns the error for a full stream, or None for another JetStream error."""
    code, description = int(error.get("err_code", 0)), str(error.get("description", ""))
    if code == _STORE_FAILED and description.startswith(_STREAM_LIMITS):
        return StreamFull(stream, description, _RAISE_LIMIT, code)
    if code in _LIMITS:
        limit, remedy = _LIMITS[code]
        return StreamFull(stream, limit, remedy, code)
    return None
