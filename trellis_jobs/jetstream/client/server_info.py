"""Facts about the connected server: account, replication and clock."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

import orjson

from trellis_jobs.contract.topology import LOG, WORK
from trellis_jobs.errors import NotPermitted
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
    """Returns None if the server is too old to tell, or the credentials lack the permission."""
    try:
        reply = await connection.request(_USER_INFO, timeout=_REQUEST_TIMEOUT)
        info: dict[str, Any] = orjson.loads(reply.data).get("data") or {}
    except (ConnectionLost, NoResponders, NotPermitted, orjson.JSONDecodeError):
        return None
    name = info.get("account_name") or info.get("account")
    return None if name is None else str(name)


async def replication_of(connection: Connection, stream: str) -> Replication | None:
    """Returns None when the stream does not exist."""
    info = await api.find(connection, f"STREAM.INFO.{stream}")
    return None if info is None else read_replication(info)


async def clock_difference(
    connection: Connection,
    now: Callable[[], datetime],
    call: str = f"STREAM.INFO.{LOG}",
    observe: Callable[[datetime], None] = lambda _: None,
) -> timedelta:
    """Returns how far the server's clock is ahead of `now`, to about half a round trip.

    `call` is a JetStream API call whose reply contains the server's time. `observe` is called with
    that time when it has arrived.
    """
    before = now()
    info = await api.request(connection, call)
    after = now()
    server_now = datetime.fromisoformat(str(info["ts"]))
    observe(server_now)
    return server_now - (before + (after - before) / 2)


async def server_time(connection: Connection, name: str) -> datetime:
    """Returns the server's time from the info of this consumer, which its workers may read."""
    info = await api.request(connection, f"CONSUMER.INFO.{WORK}.{name}")
    return datetime.fromisoformat(str(info["ts"]))
