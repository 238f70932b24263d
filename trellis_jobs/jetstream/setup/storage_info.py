"""How full the streams and their storage are, as far as the server reports it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

from trellis_jobs.contract.topology import ADVISORIES, KEYS, LOG, WORK
from trellis_jobs.errors import JobsError
from trellis_jobs.jetstream.client import api
from trellis_jobs.jetstream.client.stream_info import of_stream
from trellis_jobs.model.usage import Usage, limited

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from trellis_jobs.jetstream.client.connection import Connection

STREAMS: Final = (LOG, WORK, ADVISORIES, KEYS)


async def usages(connection: Connection, more: Iterable[str] = ()) -> list[Usage]:
    """Returns the usage of everything with a limit: the streams, and the account's storage.

    `more` are streams that not every installation has.
    """
    streams = await asyncio.gather(
        *(_request_info(connection, f"STREAM.INFO.{stream}") for stream in (*STREAMS, *more))
    )
    found = await account_usages(connection)
    for info in streams:
        found += [] if info is None else of_stream(info)
    return found


async def account_usages(connection: Connection) -> list[Usage]:
    """Returns the usage of the account's storage; empty without permission to ask for it."""
    info = await _request_info(connection, "INFO")
    return [] if info is None else of_account(info)


async def _request_info(connection: Connection, call: str) -> Mapping[str, Any] | None:
    """Returns None without the permission, or if the stream does not exist."""
    try:
        return await api.request(connection, call)
    except JobsError:
        return None


def of_account(info: Mapping[str, Any]) -> list[Usage]:
    """An account may have limits per tier (R1, R3) instead of one limit."""
    tiers: Mapping[str, Any] = info.get("tiers") or {"": info}
    found: list[Usage] = []
    for name, tier in tiers.items():
        of_tier = f" ({name})" if name else ""
        limits = tier.get("limits") or {}
        found += limited(
            {
                f"JetStream storage of the account{of_tier}": (
                    tier.get("storage", 0),
                    limits.get("max_storage"),
                ),
                f"JetStream memory of the account{of_tier}": (
                    tier.get("memory", 0),
                    limits.get("max_memory"),
                ),
            }
        )
    return found


def of_server(report: Mapping[str, Any]) -> list[Usage]:
    """Reads the server's JSZ report, which only the system account may request."""
    config: Mapping[str, Any] = report.get("config") or {}
    return limited(
        {
            "JetStream storage of the server": (
                report.get("storage", 0),
                config.get("max_storage"),
            ),
            "JetStream memory of the server": (report.get("memory", 0), config.get("max_memory")),
        }
    )
