"""How pulls end, on every server version: what is an end, and what must never be taken for one."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from datetime import timedelta

import pytest

from tests.support.cluster import Cluster, cluster
from tests.support.facts import until
from tests.support.fault_proxy import Then, fault_proxy
from tests.support.servers import VERSIONS, start_version
from trellis_jobs.embedded import EmbeddedServer
from trellis_jobs.errors import InfrastructureMissing
from trellis_jobs.jetstream.client import api
from trellis_jobs.jetstream.client.connection import Connection
from trellis_jobs.jetstream.client.pull_consumer import (
    Delivered,
    EphemeralConsumer,
    PullBroken,
    PullConsumer,
    PullEnd,
    open_ephemeral_consumer,
    open_pull_consumer,
)

STREAM = "PULLED"
WANTED = EphemeralConsumer(
    stream=STREAM, name_prefix="test", idle_timeout=timedelta(minutes=1), delete_after_use=False
)
MESSAGES = 10


@pytest.fixture(scope="module", params=VERSIONS)
def server(request: pytest.FixtureRequest) -> Iterator[EmbeddedServer]:
    with start_version(request.param) as running:
        yield running


@asynccontextmanager
async def opened(url: str) -> AsyncIterator[Connection]:
    connection = await Connection.open(url, name="pulls")
    try:
        yield connection
    finally:
        await connection.close()


@asynccontextmanager
async def connected(server: EmbeddedServer) -> AsyncIterator[Connection]:
    """With a stream of ten messages."""
    async with opened(server.url) as connection:
        config = {"name": STREAM, "subjects": ["pulled.>"], "storage": "memory"}
        await api.request(connection, f"STREAM.CREATE.{STREAM}", config)
        await fill(connection)
        try:
            yield connection
        finally:
            await api.request(connection, f"STREAM.DELETE.{STREAM}")


async def fill(connection: Connection) -> None:
    for number in range(MESSAGES):
        await connection.request("pulled.x", b"%d" % number + b"." * 100)


async def ended(pull: PullConsumer) -> tuple[int, PullEnd]:
    """How many came, and then how it ended."""
    for number in range(MESSAGES + 1):
        came = await pull.next()
        if isinstance(came, PullEnd):
            return number, came
    raise AssertionError("it did not end")


def number_of(delivered: Delivered) -> int:
    return int(delivered[0].data.split(b".")[0])


async def only_consumer(connection: Connection) -> str:
    [name] = (await api.request(connection, f"CONSUMER.NAMES.{STREAM}"))["consumers"]
    return str(name)


async def test_a_pull_that_finds_less_than_it_asked_for_says_nothing_more(
    server: EmbeddedServer,
) -> None:
    async with connected(server) as connection, open_ephemeral_consumer(connection, WANTED) as pull:
        assert pull.pending == MESSAGES
        await pull.request(MESSAGES - 4, wait=False)
        for _ in range(MESSAGES - 4):
            assert not isinstance(await pull.next(), PullEnd)
        await pull.request(MESSAGES, wait=False)
        assert await ended(pull) == (4, PullEnd.NOTHING_MORE)
        await pull.request(MESSAGES, wait=False)
        assert await ended(pull) == (0, PullEnd.NOTHING_MORE)
        await pull.request(MESSAGES, wait=True)
        assert await ended(pull) == (0, PullEnd.NOTHING_MORE)
        assert pull.outstanding == 0


async def test_a_pull_at_its_bound_is_full_and_the_next_goes_on(server: EmbeddedServer) -> None:
    async with connected(server) as connection, open_ephemeral_consumer(connection, WANTED) as pull:
        await pull.request(MESSAGES, wait=True, max_bytes=500)
        by_bytes, end = await ended(pull)
        assert (0 < by_bytes < MESSAGES, end, pull.outstanding) == (True, PullEnd.FULL, 0)
        await pull.request(2, wait=True, max_bytes=100_000)
        assert await ended(pull) == (2, PullEnd.FULL)
        await pull.request(MESSAGES, wait=True, max_bytes=100_000)
        came = await pull.next()
        assert not isinstance(came, PullEnd)
        assert number_of(came) == by_bytes + 2


@pytest.mark.parametrize("gone", ["consumer", "stream"])
async def test_what_is_deleted_breaks_a_pull_under_way_and_every_later_one(
    server: EmbeddedServer, gone: str
) -> None:
    async with connected(server) as connection:
        async with open_ephemeral_consumer(connection, WANTED) as pull:
            assert [number_of(each) async for each in pull.drain()] == list(range(MESSAGES))
            await pull.request(1, wait=True)
            consumer = await only_consumer(connection)

            async def waits() -> bool:
                info = await api.request(connection, f"CONSUMER.INFO.{STREAM}.{consumer}")
                return bool(info["num_waiting"] == 1)

            await until(waits, "the server has the pull")
            what = f"STREAM.DELETE.{STREAM}"
            if gone == "consumer":
                what = f"CONSUMER.DELETE.{STREAM}.{consumer}"
            await api.request(connection, what)
            with pytest.raises(PullBroken, match="409 Consumer Deleted"):
                await pull.next()
        async with open_pull_consumer(connection, STREAM, consumer) as later:
            await later.request(1, wait=True)
            with pytest.raises(PullBroken, match="503"):
                await later.next()
        if gone == "stream":
            with pytest.raises(InfrastructureMissing, match=STREAM):
                async with open_ephemeral_consumer(connection, WANTED):
                    pass
            config = {"name": STREAM, "subjects": ["pulled.>"]}
            await api.request(connection, f"STREAM.CREATE.{STREAM}", config)


async def test_what_has_arrived_before_a_break_is_told_before_it(server: EmbeddedServer) -> None:
    async with connected(server) as connection, open_ephemeral_consumer(connection, WANTED) as pull:
        await pull.request(MESSAGES + 1, wait=True)
        consumer = await only_consumer(connection)

        async def all_are_sent() -> bool:
            info = await api.request(connection, f"CONSUMER.INFO.{STREAM}.{consumer}")
            return bool(info["delivered"]["consumer_seq"] == MESSAGES)

        await until(all_are_sent, "everything is sent")
        await connection.flush()
        await api.request(connection, f"CONSUMER.DELETE.{STREAM}.{consumer}")
        told = 0
        while pull.next_buffered() is not None:
            told += 1
        assert told == MESSAGES
        for _ in range(2):
            with pytest.raises(PullBroken):
                await pull.next()


@pytest.mark.parametrize("version", VERSIONS)
async def test_a_server_that_shuts_down_breaks_a_pull(version: str) -> None:
    with start_version(version) as server:
        async with opened(server.url) as connection:
            config = {"name": STREAM, "subjects": ["pulled.>"], "storage": "memory"}
            await api.request(connection, f"STREAM.CREATE.{STREAM}", config)
            async with open_ephemeral_consumer(connection, WANTED) as pull:
                await pull.request(1, wait=True)
                await connection.flush()
                os.kill(server.pid, signal.SIGTERM)
                # Now and then it closes the connection before it has said so.
                with pytest.raises(PullBroken, match=r"409 Server Shutdown|came to no end"):
                    await pull.next()


@pytest.fixture(scope="module")
def three() -> Iterator[Cluster]:
    with cluster() as running:
        yield running


async def test_another_leader_of_the_consumer_breaks_a_pull(three: Cluster) -> None:
    await three.until_ready()
    async with opened(three.url) as connection:
        config = {"name": STREAM, "subjects": ["pulled.>"], "num_replicas": 3}
        await api.request(connection, f"STREAM.CREATE.{STREAM}", config)
        durable = {"durable_name": "kept", "ack_policy": "explicit"}
        body = {"stream_name": STREAM, "action": "create", "config": durable}
        await api.request(connection, f"CONSUMER.CREATE.{STREAM}.kept", body)
        await until(lambda: _answers(connection, "kept"), "the consumer is known everywhere")
        async with open_pull_consumer(connection, STREAM, "kept") as pull:
            await pull.request(1, wait=True)
            await until(lambda: _is_asked(connection, "kept"), "the pull is there")
            await api.request(connection, f"CONSUMER.LEADER.STEPDOWN.{STREAM}.kept")
            with pytest.raises(PullBroken, match="409 Leadership Change"):
                await pull.next()


async def test_a_new_connection_breaks_a_pull(server: EmbeddedServer) -> None:
    async with (
        connected(server),
        fault_proxy(server.url) as way,
        opened(way.url) as connection,
        open_ephemeral_consumer(connection, WANTED) as pull,
    ):
        assert len([each async for each in pull.drain()]) == MESSAGES
        await pull.request(1, wait=True)
        await connection.flush()
        way.cut()
        with pytest.raises(PullBroken, match="the client reconnected"):
            await pull.next()


async def test_a_delivery_that_was_lost_on_the_way_is_noticed(server: EmbeddedServer) -> None:
    """As in a connection that breaks with deliveries in it, and is there again for the next."""
    async with (
        connected(server) as aside,
        fault_proxy(server.url) as way,
        opened(way.url) as connection,
        open_ephemeral_consumer(connection, WANTED) as pull,
    ):
        assert len([each async for each in pull.drain()]) == MESSAGES
        lost = asyncio.Event()

        def lose() -> Then:
            lost.set()
            return Then.SWALLOW

        way.when_server_sends(rb"MSG pulled\.x", lose)
        await pull.request(2, wait=True)
        await aside.request("pulled.x", b"10")
        await lost.wait()
        await aside.request("pulled.x", b"11")
        with pytest.raises(PullBroken, match="are lost"):
            await pull.next()


@pytest.mark.parametrize("is_deleted", [True, False])
async def test_a_consumer_is_deleted_at_the_end_if_that_was_asked_for(
    server: EmbeddedServer, is_deleted: bool
) -> None:
    wanted = EphemeralConsumer(
        stream=STREAM,
        name_prefix="test",
        idle_timeout=timedelta(minutes=1),
        delete_after_use=is_deleted,
    )
    async with connected(server) as connection:
        heard = list[str]()
        subject = f"$JS.API.CONSUMER.DELETE.{STREAM}.*"
        await connection.subscribe(subject, lambda message: heard.append(message.subject))
        async with open_ephemeral_consumer(connection, wanted):
            name = await only_consumer(connection)
        await connection.flush()
        if is_deleted:
            await until(lambda: _is_gone(connection), "the consumer is deleted")
            assert [each.rsplit(".", 1)[-1] for each in heard] == [name]
        else:
            assert heard == []
            assert await only_consumer(connection) == name


async def _answers(connection: Connection, consumer: str) -> bool:
    async with open_pull_consumer(connection, STREAM, consumer) as pull:
        await pull.request(1, wait=False)
        try:
            return await pull.next() is PullEnd.NOTHING_MORE
        except PullBroken:
            return False


async def _is_asked(connection: Connection, consumer: str) -> bool:
    info = await api.request(connection, f"CONSUMER.INFO.{STREAM}.{consumer}")
    return bool(info["num_waiting"])


async def _is_gone(connection: Connection) -> bool:
    return not (await api.request(connection, f"CONSUMER.NAMES.{STREAM}"))["consumers"]
