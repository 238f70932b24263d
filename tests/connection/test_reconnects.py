"""Whoever wants to know of a reconnect is told, until they no longer want to."""

from __future__ import annotations

from tests.support.facts import until
from tests.support.fault_proxy import fault_proxy
from tests.support.lab import probe
from trellis_jobs.embedded import EmbeddedServer


async def test_who_asked_twice_and_took_one_back_is_told_once(server: EmbeddedServer) -> None:
    told: list[str] = []

    def observe() -> None:
        told.append("observer")

    async with fault_proxy(server.url) as way, probe(way.url) as raw:
        forget = raw.connection.on_reconnect(observe)
        raw.connection.on_reconnect(observe)
        raw.connection.on_reconnect(lambda: told.append("last"))
        forget()
        forget()
        way.cut()
        await until(lambda: "last" in told, "the connection is back")
        assert told == ["observer", "last"]
