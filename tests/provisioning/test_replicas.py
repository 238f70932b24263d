"""How many replicas the streams get: what was said, else what the cluster can hold, else one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest

from tests.support.cluster import Cluster, cluster
from tests.support.example_service import Task
from tests.support.facts import until
from tests.support.lab import lab_worker, probe
from trellis_jobs import Workers
from trellis_jobs.contract.topology import ADVISORIES, KEYS, LOG, WORK
from trellis_jobs.embedded import HOST, EmbeddedServer
from trellis_jobs.errors import NotConfirmed
from trellis_jobs.jetstream.client import api
from trellis_jobs.jetstream.client.connect_options import as_connect_options
from trellis_jobs.jetstream.client.connection import Connection
from trellis_jobs.jetstream.setup.features import detect_replicas, replicas_from_jsz

SECOND = 1_000_000_000
ELECTION = 45  # a stream that grows may be without a leader for a while


def jsz(*peers: dict[str, Any]) -> dict[str, Any]:
    """What the meta leader of a 2.15.1 cluster answered, as far as it is read."""
    meta = {"name": "lab", "leader": "node-1", "replicas": list(peers), "cluster_size": 3}
    return {"server": {"name": "node-1"}, "data": {"streams": 0, "meta_cluster": meta}}


def peer(name: str, **different: Any) -> dict[str, Any]:
    return {"name": name, "current": True, "active": 438_368_866, "peer": name} | different


def test_a_leader_and_two_live_peers_hold_three_replicas() -> None:
    assert replicas_from_jsz(jsz(peer("node-0"), peer("node-2"))) == 3


def test_five_servers_hold_three_replicas_too() -> None:
    assert replicas_from_jsz(jsz(*(peer(f"node-{n}") for n in range(4)))) == 3


@pytest.mark.parametrize(
    "missing",
    [
        {"current": False},
        {"offline": True},
        {"active": 5 * SECOND},  # killed, but still called current
        {"active": 3600 * SECOND},
    ],
)
def test_a_peer_that_is_behind_or_silent_does_not_count(missing: dict[str, Any]) -> None:
    assert replicas_from_jsz(jsz(peer("node-0"), peer("node-2", **missing))) == 1


def test_two_servers_hold_one_replica() -> None:
    assert replicas_from_jsz(jsz(peer("node-0"))) == 1


@pytest.mark.parametrize(
    "answer",
    [
        {"server": {"name": "alone"}, "data": {"streams": 3}},
        {"data": {"meta_cluster": None}},
        {"data": {"meta_cluster": {"name": "lab", "replicas": None}}},
        {"meta_cluster": {"leader": "node-1"}},
        {},
    ],
)
def test_a_server_that_tells_of_no_cluster_holds_one_replica(answer: dict[str, Any]) -> None:
    assert replicas_from_jsz(answer) == 1


def test_an_answer_that_is_not_wrapped_is_read_as_well() -> None:
    assert replicas_from_jsz(jsz(peer("node-0"), peer("node-2"))["data"]) == 3


@pytest.fixture
def three() -> Iterator[Cluster]:
    with cluster() as running:
        yield running


async def replicas(url: str) -> set[int]:
    return {info["config"]["num_replicas"] for info in await streams(url)}


async def streams(url: str) -> list[dict[str, Any]]:
    """What the server says of each stream. Raises NotConfirmed if one has no leader."""
    async with probe(url) as raw:
        names = (await api.request(raw.connection, "STREAM.NAMES"))["streams"]
        assert set(names) >= {LOG, WORK, ADVISORIES, KEYS}
        return [await api.request(raw.connection, f"STREAM.INFO.{name}") for name in names]


@pytest.mark.timeout(180)
async def test_new_streams_follow_the_cluster_and_others_change_only_when_told(
    three: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    await three.until_ready()
    service = lab_worker().service

    async def start(expected: int, **options: Any) -> None:
        async with service.connect(three.url, workers=Workers(queues=["work"]), **options):
            assert await replicas(three.url) == {expected}
            ref = await service.jobs.work.create(Task(text="still works"))
            assert (await ref.wait(timeout=ELECTION)).text == "still works"

    await start(3, system_account=three.system_url)
    await start(1, replicas=1)
    await start(1, system_account=three.system_url)
    assert "stream JOBS can be improved: num_replicas is 1, the cluster can hold 3" in caplog.text
    await start(3, replicas=3)
    await without_a_follower(three)
    await start(3, system_account=three.system_url)


async def without_a_follower(three: Cluster) -> None:
    """Kill one that does not lead, and wait until the leader has missed it for long enough.

    Not before all replicas have what they need: the killed one may be the only one that has it.
    """

    async def all_are_current() -> bool:
        clusters = [info["cluster"] for info in await streams(three.url)]
        return all(
            len(each["replicas"]) == 2 and all(peer["current"] for peer in each["replicas"])
            for each in clusters
        )

    await until(all_are_current, "all replicas of all streams are current", deadline=120)
    system = await Connection.open(three.system_url, name="probe")
    try:
        answer = await system.request("$SYS.REQ.SERVER.PING.JSZ", b'{"leader_only": true}')
    finally:
        await system.close()
    leader = next(n for n in range(3) if f'"leader":"node-{n}"'.encode() in answer.data)
    three.nodes[(leader + 1) % 3].kill()

    async def missed() -> bool:
        return await detect_replicas(as_connect_options(three.url), three.system_url) == 1

    async def all_have_leaders() -> bool:
        with suppress(NotConfirmed):
            return bool(await replicas(three.url))
        return False

    await until(missed, "the killed server is missed")
    await until(all_have_leaders, "the streams that it led have new leaders", deadline=120)


WITH_SYSTEM_ACCOUNT = """
accounts {
    SYS: { users: [{ user: sys, password: sys }] }
    APP: { jetstream: enabled, users: [{ user: app, password: app }] }
}
system_account: SYS
"""


async def test_one_server_alone_gets_one_replica() -> None:
    with EmbeddedServer.start(config=WITH_SYSTEM_ACCOUNT) as server:
        system = f"nats://sys:sys@{HOST}:{server.port}"
        assert await detect_replicas(as_connect_options(server.url), system) == 1


@pytest.mark.parametrize("who", ["app:app", "sys:guessed"])
async def test_without_the_system_account_the_service_starts_with_one_replica(
    who: str, caplog: pytest.LogCaptureFixture
) -> None:
    with EmbeddedServer.start(config=WITH_SYSTEM_ACCOUNT) as server:
        url = f"nats://app:app@{HOST}:{server.port}"
        system = f"nats://{who}@{HOST}:{server.port}"
        async with lab_worker().service.connect(url, workers=False, system_account=system):
            assert await replicas(url) == {1}
    assert "cannot read the size of the cluster" in caplog.text
