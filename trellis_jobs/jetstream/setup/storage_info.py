"""How full the streams and their storage are, as far as the server reports it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

from trellis_jobs.contract.topology import ADVISORIES, KEYS, LOG, WORK
from trellis_jobs.errors import JobsError
from trellis_jobs.jetstream.client import api
from trellis_jobs.model.usage import Usage

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trellis_jobs.jetstream.client.connection import Connection

STREAMS: Final = (LOG, WORK, ADVISORIES, KEYS)


async def usages(connection: Connection) -> list[Usage]:
    """Returns the usage of everything with a limit: the streams, and the account's storage."""
    found = await asyncio.gather(
        _request_info(connection, "INFO"),
        *(_request_info(connection, f"STREAM.INFO.{stream}") for stream in STREAMS),
    )
    account, *streams = found
    listed = [] if account is None else of_account(account)
    for info in streams:
        listed += [] if info is None else of_stream(info)
    return listed


async def _request_info(connection: Connection, call: str) -> Mapping[str, Any] | None:
    """Returns None without the permission, or if the stream does not exist."""
    try:
        return await api.request(connection, call)
    except JobsError:
        return None


def of_stream(info: Mapping[str, Any]) -> list[Usage]:
    """Only streams that refuse messages when full: with `discard: old` they drop the oldest."""
    config, state = info["config"], info["state"]
    if config.get("discard") != "new":
        return []
    name = config["name"]
    limits = {
        f"bytes of stream {name}": (state["bytes"], config.get("max_bytes")),
        f"messages of stream {name}": (state["messages"], config.get("max_msgs")),
    }
    return _limited(limits)


def of_account(info: Mapping[str, Any]) -> list[Usage]:
    """An account may have limits per tier (R1, R3) instead of one limit."""
    tiers: Mapping[str, Any] = info.get("tiers") or {"": info}
    found: list[Usage] = []
    for name, tier in tiers.items():
        of_tier = f" ({name})" if name else ""
        limits = tier.get("limits") or {}
        found += _limited(
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
    return _limited(
        {
            "JetStream storage of the server": (
                report.get("storage", 0),
                config.get("max_storage"),
            ),
            "JetStream memory of the server": (report.get("memory", 0), config.get("max_memory")),
        }
    )


def _limited(found: Mapping[str, tuple[Any, Any]]) -> list[Usage]:
    return [
        Usage(what, int(used), int(limit))
        for what, (used, limit) in found.items()
        if limit is not None and int(limit) > 0
    ]
