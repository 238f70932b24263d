"""Reads and deletes single messages of a stream through its leader.

The leader replies, never a lagging replica: code that acts on the absence of a message must be
sure that it is absent.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from trellis_jobs.errors import RequestRefused
from trellis_jobs.jetstream.client import api

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trellis_jobs.jetstream.client.connection import Connection

_NO_MESSAGE: Final = frozenset({api.MESSAGE_NOT_FOUND, api.MESSAGE_NOT_DELETED})
_NANOSECONDS: Final = 9
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class StoredMessage:
    """`stored_ns` is the server's time, in nanoseconds since 1970."""

    subject: str
    sequence: int
    stored_ns: int
    data: bytes
    headers: Mapping[str, str]

    @property
    def stored_at(self) -> datetime:
        return moment_of(self.stored_ns)


def moment_of(stored_ns: int) -> datetime:
    return _EPOCH + timedelta(microseconds=stored_ns // 1000)


async def at_sequence(connection: Connection, stream: str, sequence: int) -> StoredMessage | None:
    return await _get(connection, stream, {"seq": sequence})


async def newest(connection: Connection, stream: str, subject: str) -> StoredMessage | None:
    """Returns the newest message under a subject, which may have wildcards."""
    return await _get(connection, stream, {"last_by_subj": subject})


async def next_from(
    connection: Connection, stream: str, subject: str, sequence: int
) -> StoredMessage | None:
    """Returns the first message under a subject at this sequence or later."""
    return await _get(connection, stream, {"seq": sequence, "next_by_subj": subject})


async def delete(connection: Connection, stream: str, sequence: int) -> None:
    """Delete a message; it is no error if it does not exist."""
    await _request(connection, stream, "DELETE", {"seq": sequence, "no_erase": True})


async def _get(connection: Connection, stream: str, query: dict[str, Any]) -> StoredMessage | None:
    reply = await _request(connection, stream, "GET", query)
    if reply is None:
        return None
    message: dict[str, Any] = reply["message"]
    return StoredMessage(
        message["subject"],
        int(message["seq"]),
        nanoseconds_of(message["time"]),
        base64.b64decode(message.get("data", "")),
        _headers(base64.b64decode(message.get("hdrs", ""))),
    )


async def _request(
    connection: Connection, stream: str, verb: str, body: dict[str, Any]
) -> dict[str, Any] | None:
    try:
        return await api.request(connection, f"STREAM.MSG.{verb}.{stream}", body)
    except RequestRefused as refusal:
        if refusal.code in _NO_MESSAGE:
            return None
        raise


def nanoseconds_of(text: str) -> int:
    """Reads an RFC 3339 time as a number: it has up to nine decimals, and a datetime only six."""
    seconds, _, fraction = text.removesuffix("Z").partition(".")
    whole = datetime.fromisoformat(seconds).replace(tzinfo=UTC)
    return int(whole.timestamp()) * 10**_NANOSECONDS + int(fraction.ljust(_NANOSECONDS, "0"))


def _headers(block: bytes) -> dict[str, str]:
    lines = (line.partition(b":") for line in block.split(b"\r\n")[1:])
    return {
        name.strip().decode("ascii", "replace"): value.strip().decode("utf-8", "replace")
        for name, colon, value in lines
        if colon
    }
