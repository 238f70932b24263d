"""A server that goes silent, in each of the ways it can: the command still ends."""

from __future__ import annotations

import asyncio
import socket

import pytest

from tests.cli.shell import Ended, shell
from tests.support.fault_proxy import FaultProxy, Then, fault_proxy
from trellis_jobs.embedded import EmbeddedServer

# Each asks JetStream itself.
COMMANDS = (("queues", "list"), ("jobs", "get", "nope"), ("infra", "check"), ("workers", "list"))


async def ended(url: str, command: tuple[str, ...]) -> Ended:
    return await asyncio.to_thread(shell, *command, "--nats", url)


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
async def test_a_server_that_dies_once_it_has_let_us_in_is_said_with_4(
    server: EmbeddedServer, command: tuple[str, ...]
) -> None:
    async with fault_proxy(server.url) as between:
        between.when_client_sends(rb"JS.API", lambda: _die(between))
        told = await ended(between.url, command)
    assert (told.code, told.out) == (4, ""), told.err
    assert f"no NATS server answers at {between.url}: the connection was lost" in told.err


def _die(between: FaultProxy) -> Then:
    between.refuse()
    return Then.CUT


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
async def test_a_jetstream_that_is_silent_is_waited_for_three_seconds(
    server: EmbeddedServer, command: tuple[str, ...]
) -> None:
    async with fault_proxy(server.url) as between:
        between.when_client_sends(rb"JS.API", lambda: Then.SWALLOW, uses=1_000)
        told = await ended(between.url, command)
    assert (told.code, told.out) == (4, ""), told.err
    assert "within 3 s" in told.err


async def test_an_address_that_answers_nothing_is_said_with_4() -> None:
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        told = await ended(f"nats://127.0.0.1:{deaf.getsockname()[1]}", ("jobs", "list"))
    assert told.code == 4
    assert "it did not reply in time" in told.err
