"""Detects the features of the server, and how many replicas its cluster can hold."""

from __future__ import annotations

import asyncio
import logging
import re
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final

import orjson

from trellis_jobs.contract.features import LEVEL_2_11, LEVEL_2_12, LEVEL_2_14, Features
from trellis_jobs.errors import InfrastructureError, NotConfirmed
from trellis_jobs.jetstream.client import api
from trellis_jobs.jetstream.client.connection import Connection, ConnectionLost, NoResponders
from trellis_jobs.jetstream.client.other_user import as_other_user
from trellis_jobs.jetstream.client.replication import is_live

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from trellis_jobs.jetstream.client.connect_options import ConnectOptions

log = logging.getLogger(__name__)

_JSZ: Final = "$SYS.REQ.SERVER.PING.JSZ"
_JSZ_TIMEOUT: Final = 2.0
_POLL_DELAYS: Final = (0.0, 0.02, 0.05, 0.1, 0.2)
_REPLICATED: Final = 3
_LEVEL_BY_MINOR: Final = {11: LEVEL_2_11, 12: LEVEL_2_12, 13: LEVEL_2_12}


async def detect_features(connection: Connection) -> Features:
    """Reads `$JS.API.INFO`; without that permission, uses the version that the server announced."""
    version = connection.server_version
    try:
        info = await api.request(connection, "INFO")
    except (InfrastructureError, NotConfirmed) as error:
        log.info(
            "cannot read the server's features, assuming those of version %s: %s",
            version,
            error,
            extra={"version": version, "why": str(error)},
        )
        return Features(version, level_of(version))
    return Features(version, int(info.get("api", {}).get("level", 0)))


async def detect_replicas(options: ConnectOptions, system_account: str) -> int:
    """Returns 3 when at least three JetStream servers are current, else 1.

    It asks the system account.
    """
    try:
        async with _system_connection(options, system_account) as system:
            return await _count_replicas(system)
    except (ConnectionLost, NoResponders, InfrastructureError, orjson.JSONDecodeError) as error:
        return _assume_one_replica(error)


async def jetstream_report(options: ConnectOptions, system_account: str) -> dict[str, Any] | None:
    """Returns the server's JetStream settings and usage, or None if they cannot be read."""
    try:
        async with _system_connection(options, system_account) as system:
            return await _jsz(system)
    except (ConnectionLost, NoResponders, InfrastructureError, orjson.JSONDecodeError):
        return None


def syncs_every_write(report: dict[str, Any] | None) -> bool | None:
    """Returns whether the server syncs each write to disk before it confirms it.

    Returns None if the report does not say.
    """
    config = (report or {}).get("config") or {}
    return bool(config.get("sync_always")) if config else None


@asynccontextmanager
async def _system_connection(
    options: ConnectOptions, system_account: str
) -> AsyncIterator[Connection]:
    """Connect to the system account, given as a URL with user and password, or as a file."""
    system = await Connection.open(
        as_other_user(options, system_account), name="jobs replica probe"
    )
    try:
        yield system
    finally:
        await system.close()


async def _count_replicas(system: Connection) -> int:
    """Poll, because a peer is not current for a moment whenever a stream is created."""
    replicas = 1
    for pause in _POLL_DELAYS:
        await asyncio.sleep(pause)
        report = await _jsz(system, b'{"leader_only": true}')
        replicas = replicas_from_jsz(report)
        if replicas == _REPLICATED or 1 + len(_peers(report)) < _REPLICATED:
            break
    return replicas


async def _jsz(system: Connection, body: bytes = b"") -> dict[str, Any]:
    report: dict[str, Any] = orjson.loads(
        (await system.request(_JSZ, body, timeout=_JSZ_TIMEOUT)).data
    )
    data: dict[str, Any] = report.get("data", report)
    return data


def replicas_from_jsz(report: dict[str, Any]) -> int:
    """Counts the leader and the peers that are current, online and recently active."""
    live = [peer for peer in _peers(report) if peer.get("current") and is_live(peer)]
    return _REPLICATED if 1 + len(live) >= _REPLICATED else 1


def _peers(report: dict[str, Any]) -> list[dict[str, Any]]:
    meta = report.get("data", report).get("meta_cluster") or {}
    return list(meta.get("replicas") or ())


def _assume_one_replica(why: Exception) -> int:
    log.warning("cannot read the size of the cluster, assuming one server: %s", why)
    return 1


def level_of(version: str) -> int:
    found = re.match(r"2\.(\d+)", version)
    minor = int(found[1]) if found else 0
    return _LEVEL_BY_MINOR.get(minor, LEVEL_2_14 if minor > max(_LEVEL_BY_MINOR) else 0)
