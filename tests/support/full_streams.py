"""Streams that take no more messages, on real servers."""

from __future__ import annotations

from typing import Any

from tests.support.lab import Probe
from trellis_jobs.contract.topology import LOG
from trellis_jobs.jetstream.client import api


async def bound(raw: Probe, stream: str = LOG, **limits: int) -> None:
    """Give a stream limits at which it refuses messages; -1 removes one."""
    info = await api.request(raw.connection, f"STREAM.INFO.{stream}")
    config: dict[str, Any] = info["config"] | limits | {"discard": "new"}
    await api.request(raw.connection, f"STREAM.UPDATE.{stream}", config)


async def state_of(raw: Probe, stream: str = LOG) -> dict[str, Any]:
    info = await api.request(raw.connection, f"STREAM.INFO.{stream}")
    state: dict[str, Any] = info["state"]
    return state


async def fill_storage(raw: Probe) -> None:
    """Another stream takes all the space that the server or the account has."""
    config = {"name": "FILLER", "subjects": ["filler"], "storage": "file"}
    await api.request(raw.connection, "STREAM.CREATE.FILLER", config)
    for size in (10_000, 500, 1):
        answer = b""
        while b"error" not in answer:
            answer = (await raw.connection.request("filler", b"x" * size)).data


async def free_storage(raw: Probe) -> None:
    await api.request(raw.connection, "STREAM.DELETE.FILLER")
