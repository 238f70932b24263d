"""Requests to the JetStream API: JSON in, JSON out, refusals as typed errors."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

import orjson

from trellis_jobs.errors import (
    InfrastructureError,
    InfrastructureMissing,
    JetStreamNotReady,
    NotConfirmed,
    RequestRefused,
    StreamMissing,
)
from trellis_jobs.jetstream.client.connection import Connection, ConnectionLost, NoResponders

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trellis_jobs.jetstream.client.message import Message

TIMEOUT: Final = 5.0
_REQUEST_ATTEMPTS: Final = 4
_PAGE_SIZE: Final = 256
# For connections with a `max_wait`: both attempts must fit into it, in case the first got lost.
_LIMITED_REQUEST_ATTEMPTS: Final = 2

WRONG_LAST_SEQUENCE: Final = 10071
WRITE_IN_FLIGHT: Final = 10164
MESSAGE_NOT_FOUND: Final = 10037
MESSAGE_NOT_DELETED: Final = 10057
STREAM_NAME_IN_USE: Final = 10058
BATCHES_NOT_ALLOWED: Final = 10174
CONSUMER_NOT_FOUND: Final = 10014
CONSUMER_EXISTS: Final = 10148
CONSUMER_NAME_IN_USE: Final = 10013
SCHEDULES_DISABLED: Final = 10188
OVERLAPPING_CONSUMER: Final = frozenset({10099, 10100})
_NOT_ENABLED: Final = frozenset({10039, 10076})
_NO_LEADER: Final = 10008
_STREAM_NOT_FOUND: Final = 10059
_REMEDY: Final = "start nats-server with --jetstream, and enable JetStream for this account"


async def request(
    connection: Connection, call: str, body: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Call the JetStream API. Raises StreamMissing when the stream of the call does not exist, and
    RequestRefused with JetStream's error code for other refusals.

    The request is repeated when no reply comes, because a stream without a leader does not reply.
    Every API call of this library is safe to repeat.
    """
    data = orjson.dumps(body) if body is not None else b""
    reply: dict[str, Any] = orjson.loads(await _request_with_retry(connection, call, data))
    refusal = reply.get("error")
    if refusal:
        raise _error_of(call, refusal)
    return reply


def _error_of(call: str, refusal: Mapping[str, Any]) -> InfrastructureError:
    code = int(refusal.get("err_code", refusal.get("code", 0)))
    description = str(refusal.get("description", "no description"))
    if code == _STREAM_NOT_FOUND:
        return StreamMissing(_stream_in(call))
    if code in _NOT_ENABLED:
        return InfrastructureMissing(f"JetStream ({description})", _REMEDY)
    if code == _NO_LEADER:
        wait = "wait until the servers of its cluster have elected a leader"
        return JetStreamNotReady(f"JetStream ({description})", wait)
    return RequestRefused(call, code, description)


def _stream_in(call: str) -> str:
    """Returns the stream of a call such as STREAM.INFO.JOBS, STREAM.MSG.GET.JOBS."""
    names = call.split(".")
    return names[3] if names[1] in ("MSG", "LEADER") else names[2]


async def find(connection: Connection, call: str) -> dict[str, Any] | None:
    """Returns the server's info about a stream or consumer, or None when it does not exist."""
    try:
        return await request(connection, call)
    except StreamMissing:
        return None
    except RequestRefused as refusal:
        if refusal.code == CONSUMER_NOT_FOUND:
            return None
        raise


async def consumers(connection: Connection, stream: str) -> list[dict[str, Any]]:
    """Returns the server's info about every consumer of a stream."""
    found: list[dict[str, Any]] = []
    while True:
        listed = await request(connection, f"CONSUMER.LIST.{stream}", {"offset": len(found)})
        page = listed.get("consumers") or []
        found += page
        if len(page) < _PAGE_SIZE or len(found) >= int(listed.get("total", 0)):
            return found


async def newest(
    connection: Connection, stream: str, subject: str, *, timeout: float = TIMEOUT
) -> Message:
    """Returns the newest message on a subject (wildcards allowed) from any replica."""
    call = connection.api(f"DIRECT.GET.{stream}.{subject}")
    return await connection.request(call, timeout=limited_timeout(connection, timeout))


def sequence_of(message: Message) -> int:
    """Returns the sequence in the reply to a direct get; the server's own header comes last."""
    return int((message.headers or {})["Nats-Sequence"].rsplit("\n", 1)[-1])


def stored_at(message: Message) -> datetime:
    """Returns the server's time in the reply to a direct get, to a microsecond."""
    text = (message.headers or {})["Nats-Time-Stamp"].rsplit("\n", 1)[-1]
    return datetime.fromisoformat(text)


def limited_timeout(connection: Connection, timeout: float) -> float:
    """Returns the timeout, or the connection's `max_wait` if that is shorter."""
    return timeout if connection.max_wait is None else min(timeout, connection.max_wait)


async def _request_with_retry(connection: Connection, call: str, data: bytes) -> bytes:
    attempt = 0
    attempts, timeout = _attempts_and_timeout(connection)
    while True:
        attempt += 1
        try:
            return (await connection.request(connection.api(call), data, timeout=timeout)).data
        except NoResponders:
            raise JetStreamNotReady("JetStream (no reply from its API)", _REMEDY) from None
        except ConnectionLost as error:
            if connection.is_closed:
                raise NotConfirmed(call, None) from error
            if attempt == attempts:
                raise NotConfirmed(f"{call} ({error})", attempt * timeout) from error
        await connection.wait_until_connected()


def _attempts_and_timeout(connection: Connection) -> tuple[int, float]:
    """Returns how often a request is sent, and the timeout of each attempt."""
    if connection.max_wait is None:
        return _REQUEST_ATTEMPTS, TIMEOUT
    return _LIMITED_REQUEST_ATTEMPTS, connection.max_wait / _LIMITED_REQUEST_ATTEMPTS
