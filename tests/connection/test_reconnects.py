"""Reconnects: observers, log lines, and what a connection survives."""

from __future__ import annotations

import asyncio
import logging
import os
import signal

import pytest

from tests.support.facts import until
from tests.support.fault_proxy import fault_proxy
from tests.support.lab import probe
from trellis_jobs.embedded import EmbeddedServer
from trellis_jobs.jetstream.client.connection import Connection


async def test_an_observer_that_registered_twice_and_left_once_is_called_once(
    server: EmbeddedServer,
) -> None:
    calls: list[str] = []

    def observe() -> None:
        calls.append("observer")

    async with fault_proxy(server.url) as way, probe(way.url) as raw:
        forget = raw.connection.on_reconnect(observe)
        raw.connection.on_reconnect(observe)
        raw.connection.on_reconnect(lambda: calls.append("last"))
        forget()
        forget()
        way.cut()
        await until(lambda: "last" in calls, "the connection is back")
        assert calls == ["observer", "last"]


async def test_a_loss_is_one_line_of_the_log_and_so_is_its_end(
    server: EmbeddedServer, caplog: pytest.LogCaptureFixture
) -> None:
    """Each connection used to log a disconnect twice, with the same reason."""
    async with probe(server.url) as raw:
        back = asyncio.Event()
        raw.connection.on_reconnect(back.set)
        await asyncio.to_thread(server.kill)
        await until(lambda: not raw.connection.is_connected, "the loss is noticed")
        await asyncio.to_thread(server.restart)
        await asyncio.wait_for(back.wait(), 30)
    warnings = [r.getMessage() for r in caplog.records if r.levelno >= logging.WARNING]
    lost, found = warnings
    assert lost.startswith(f"disconnected from {server.url}: ")
    assert lost.endswith("; reconnecting")
    assert found == f"reconnected to {server.url}"


async def test_a_connection_reconnects_when_its_revoked_credentials_are_valid_again() -> None:
    """The password changes on the server, and is changed back."""
    config = "authorization { users: [ { user: ann, password: one }, { user: bob, password: b } ] }"
    with EmbeddedServer.start(config=config) as server:
        file = server.store / "nats.conf"
        written = file.read_text()

        def configure(text: str) -> None:
            file.write_text(text)
            os.kill(server.pid, signal.SIGHUP)

        async with probe(server.url.replace("nats://", "nats://ann:one@")) as raw:
            configure(written.replace("password: one", "password: two"))
            await until(lambda: not raw.connection.is_connected, "the server disconnects it")
            configure(written)
            await until(lambda: raw.connection.is_connected, "it is back")
            await raw.connection.flush()
            assert not raw.connection.is_closed


async def test_a_cancelled_flush_does_not_end_the_connection(server: EmbeddedServer) -> None:
    reconnects: list[str] = []
    async with fault_proxy(server.url) as way, probe(way.url) as raw:
        raw.connection.on_reconnect(lambda: reconnects.append("again"))
        way.freeze()
        given_up = asyncio.create_task(raw.connection.flush())
        await asyncio.sleep(0)
        given_up.cancel()
        way.thaw()
        await raw.connection.flush()
        await raw.connection.flush()
        assert raw.connection.is_connected
        assert reconnects == []


async def test_closing_a_connection_while_it_breaks_does_not_cancel_the_caller(
    server: EmbeddedServer,
) -> None:
    """The socket still has data to send, so closing it takes a while."""
    async with fault_proxy(server.url) as way:
        connection = await Connection.open(way.url, name="leaving")
        way.freeze()
        for _ in range(16):
            connection.publish_nowait("canary", bytes(1 << 19))
            await asyncio.sleep(0)
        os.kill(server.pid, signal.SIGSTOP)  # it would close the connection too
        try:
            way.hang_up()
            await until(lambda: not connection.is_connected, "the connection broke")
            await connection.close()
        finally:
            os.kill(server.pid, signal.SIGCONT)
        assert connection.is_closed
