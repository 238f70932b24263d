"""What can be learnt of the server one is connected to, by harmless questions."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

import orjson

from trellis_jobs.contract.topology import LOG, WORK
from trellis_jobs.errors import InfrastructureMissing, NotPermitted, RequestRefused
from trellis_jobs.jetstream import api
from trellis_jobs.jetstream.connection import ConnectionLost, NoResponders

if TYPE_CHECKING:
    from collections.abc import Callable

    from trellis_jobs.jetstream.connection import Connection

_WHO_AM_I: Final = "$SYS.REQ.USER.INFO"
_PATIENCE: Final = 1.0


@dataclass(frozen=True, slots=True)
class Replication:
    """How many copies of a stream there should be, and which of them lag behind or are away."""

    stream: str
    replicas: int
    leader: str | None
    behind: tuple[str, ...]


async def account_of(connection: Connection) -> str | None:
    """None where the server is too old to tell, or these credentials may not ask."""
    try:
        answer = await connection.ask(_WHO_AM_I, timeout=_PATIENCE)
        told: dict[str, Any] = orjson.loads(answer.data).get("data") or {}
    except (ConnectionLost, NoResponders, NotPermitted, orjson.JSONDecodeError):
        return None
    name = told.get("account_name") or told.get("account")
    return None if name is None else str(name)


async def replication_of(connection: Connection, stream: str) -> Replication | None:
    """None when there is no such stream."""
    try:
        info = await api.request(connection, f"STREAM.INFO.{stream}")
    except RequestRefused as refusal:
        if refusal.code == api.STREAM_NOT_FOUND:
            return None
        raise
    cluster: dict[str, Any] = info.get("cluster") or {}
    peers: list[dict[str, Any]] = cluster.get("replicas") or []
    behind = [str(p.get("name")) for p in peers if p.get("offline") or not p.get("current")]
    replicas = int(info["config"]["num_replicas"])
    return Replication(stream, replicas, cluster.get("leader"), tuple(behind))


async def clock_difference(connection: Connection, now: Callable[[], datetime]) -> timedelta:
    """How far the server's clock is ahead of ours, to about half a round trip."""
    before = now()
    try:
        info = await api.request(connection, f"STREAM.INFO.{LOG}")
    except RequestRefused as refusal:
        if refusal.code == api.STREAM_NOT_FOUND:
            raise InfrastructureMissing(f"stream {LOG}") from None
        raise
    after = now()
    theirs = datetime.fromisoformat(str(info["ts"]))
    return theirs - (before + (after - before) / 2)


async def server_time(connection: Connection, name: str) -> datetime:
    """The time on the clock of the server that has this consumer; its workers may ask for that."""
    info = await api.request(connection, f"CONSUMER.INFO.{WORK}.{name}")
    return datetime.fromisoformat(str(info["ts"]))
