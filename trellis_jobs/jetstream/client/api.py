"""JetStream's management requests: JSON in, JSON out, refusals as typed errors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import orjson

from trellis_jobs.errors import InfrastructureMissing, NotConfirmed, RequestRefused
from trellis_jobs.infrastructure_errors import JetStreamNotReady
from trellis_jobs.jetstream.client.connection import Connection, ConnectionLost, NoResponders

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trellis_jobs.jetstream.client.message import Message

TIMEOUT: Final = 5.0
_ASK_TIMES: Final = 4
_PAGE: Final = 256
# Where somebody waits: within the connection's patience, in case the first one got lost.
_ASK_TIMES_IN_A_HURRY: Final = 2

WRONG_LAST_SEQUENCE: Final = 10071
WRITE_IN_FLIGHT: Final = 10164
STREAM_NOT_FOUND: Final = 10059
MESSAGE_NOT_FOUND: Final = 10037
MESSAGE_NOT_DELETED: Final = 10057
STREAM_NAME_IN_USE: Final = 10058
BATCHES_NOT_ALLOWED: Final = 10174
CONSUMER_NOT_FOUND: Final = 10014
CONSUMER_EXISTS: Final = 10148
CONSUMER_NAME_IN_USE: Final = 10013
OVERLAPPING_CONSUMER: Final = frozenset({10099, 10100})
_NOT_ENABLED: Final = frozenset({10039, 10076})
_NO_LEADER: Final = 10008
_REMEDY: Final = "start nats-server with --jetstream, and enable JetStream for this account"


async def request(
    connection: Connection, call: str, body: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """One call of JetStream's API; raises RequestRefused with JetStream's code when it says no.

    Asked again when nobody answers: in a cluster a stream without a leader just stays silent,
    and every call of ours may be made twice.
    """
    data = orjson.dumps(body) if body is not None else b""
    answer: dict[str, Any] = orjson.loads(await _answer(connection, call, data))
    refusal = answer.get("error")
    if refusal:
        code = int(refusal.get("err_code", refusal.get("code", 0)))
        description = str(refusal.get("description", "no description"))
        if code in _NOT_ENABLED:
            raise InfrastructureMissing(f"JetStream ({description})", _REMEDY)
        if code == _NO_LEADER:
            wait = "wait until the servers of its cluster have elected a leader"
            raise JetStreamNotReady(f"JetStream ({description})", wait)
        raise RequestRefused(call, code, description)
    return answer


async def find(connection: Connection, call: str) -> dict[str, Any] | None:
    """What the server tells of a stream or consumer, or None when there is no such one."""
    try:
        return await request(connection, call)
    except RequestRefused as refusal:
        if refusal.code in (STREAM_NOT_FOUND, CONSUMER_NOT_FOUND):
            return None
        raise


async def consumers(connection: Connection, stream: str) -> list[dict[str, Any]]:
    """What the server tells of every consumer of a stream."""
    found: list[dict[str, Any]] = []
    while True:
        listed = await request(connection, f"CONSUMER.LIST.{stream}", {"offset": len(found)})
        page = listed.get("consumers") or []
        found += page
        if len(page) < _PAGE or len(found) >= int(listed.get("total", 0)):
            return found


async def newest(
    connection: Connection, stream: str, subject: str, *, timeout: float = TIMEOUT
) -> Message:
    """The newest message on a subject (wildcards allowed), from whichever replica answers."""
    call = connection.api(f"DIRECT.GET.{stream}.{subject}")
    return await connection.ask(call, timeout=within_patience(connection, timeout))


def within_patience(connection: Connection, timeout: float) -> float:
    return timeout if connection.patience is None else min(timeout, connection.patience)


async def _answer(connection: Connection, call: str, data: bytes) -> bytes:
    asked = 0
    times, timeout = _manners(connection)
    while True:
        asked += 1
        try:
            return (await connection.ask(connection.api(call), data, timeout=timeout)).data
        except NoResponders:
            raise JetStreamNotReady("JetStream (nobody answers on its API)", _REMEDY) from None
        except ConnectionLost as error:
            if connection.is_closed:
                raise NotConfirmed(call, None) from error
            if asked == times:
                raise NotConfirmed(f"{call} ({error})", asked * timeout) from error
        await connection.until_up()


def _manners(connection: Connection) -> tuple[int, float]:
    """How often it is asked, and how long each answer may take."""
    if connection.patience is None:
        return _ASK_TIMES, TIMEOUT
    return _ASK_TIMES_IN_A_HURRY, connection.patience / _ASK_TIMES_IN_A_HURRY
