"""What can be learnt of the server one is connected to, by harmless questions."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

import orjson

from trellis_jobs.contract.topology import LOG, WORK
from trellis_jobs.errors import InfrastructureMissing, NotPermitted, RequestRefused
from trellis_jobs.jetstream.client import api
from trellis_jobs.jetstream.client.connection import ConnectionLost, NoResponders
from trellis_jobs.jetstream.client.replication import read_replication

if TYPE_CHECKING:
    from collections.abc import Callable

    from trellis_jobs.jetstream.client.connection import Connection
    from trellis_jobs.jetstream.client.replication import Replication

_USER_INFO: Final = "$SYS.REQ.USER.INFO"
_REQUEST_TIMEOUT: Final = 1.0


async def account_of(connection: Connection) -> str | None:
    """None where the server is too old to tell, or these credentials may not ask."""
    try:
        reply = await connection.request(_USER_INFO, timeout=_REQUEST_TIMEOUT)
        info: dict[str, Any] = orjson.loads(reply.data).get("data") or {}
    except (ConnectionLost, NoResponders, NotPermitted, orjson.JSONDecodeError):
        return None
    name = info.get("account_name") or info.get("account")
    return None if name is None else str(name)


async def replication_of(connection: Connection, stream: str) -> Replication | None:
    """None when there is no such stream."""
    info = await api.find(connection, f"STREAM.INFO.{stream}")
    return None if info is None else read_replication(info)


async def clock_difference(
    connection: Connection, now: Callable[[], datetime], call: str = f"STREAM.INFO.{LOG}"
) -> timedelta:
    """How far the server's clock is ahead of ours, to about half a round trip.

    `call` is a request of JetStream's API whose answer has the server's time.
    """
    before = now()
    try:
        info = await api.request(connection, call)
    except RequestRefused as refusal:
        if refusal.code == api.STREAM_NOT_FOUND:
            raise InfrastructureMissing(f"stream {LOG}") from None
        raise
    after = now()
    server_now = datetime.fromisoformat(str(info["ts"]))
    return server_now - (before + (after - before) / 2)


async def server_time(connection: Connection, name: str) -> datetime:
    """The time on the clock of the server that has this consumer; its workers may ask for that."""
    info = await api.request(connection, f"CONSUMER.INFO.{WORK}.{name}")
    return datetime.fromisoformat(str(info["ts"]))
