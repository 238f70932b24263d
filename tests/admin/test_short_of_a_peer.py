"""A stream that is short of a peer is reported, before the loss of another server stops all jobs.

Reproduction: one of three servers was killed. The server goes on calling its replica "current" as
long as nothing is written, so neither `Jobs.Health` nor `doctor` said anything.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from jobs_admin.api.client import AdminClient
from jobs_admin.api.views.doctor import Level
from jobs_admin.api.views.health import HealthStatus
from jobs_admin.doctor import rules
from tests.admin.admin_lab import daemon_at
from tests.support.cluster import cluster
from tests.support.facts import until
from tests.support.lab import probe
from trellis_jobs.contract.topology import LOG, WORK, Topology
from trellis_jobs.errors import NoAnswer, ServiceMissing
from trellis_jobs.jetstream.client.replication import read_replication
from trellis_jobs.jetstream.client.server_info import replication_of
from trellis_jobs.jetstream.setup.provision import provision

SECOND = 1_000_000_000


def info(*peers: dict[str, Any], leader: str | None = "node-0") -> dict[str, Any]:
    """What a 2.15.1 server answers of a stream, as far as it is read."""
    cluster = {"name": "lab", "replicas": list(peers)} | ({"leader": leader} if leader else {})
    return {"config": {"name": "JOBS", "num_replicas": 3}, "cluster": cluster}


def peer(name: str, **different: Any) -> dict[str, Any]:
    return {"name": name, "current": True, "active": 438_368_866, "peer": name} | different


def test_three_replicas_that_hear_from_each_other_are_no_problem() -> None:
    assert read_replication(info(peer("node-1"), peer("node-2"))).problems == []


def test_a_server_that_is_alone_has_no_leader_and_no_problem() -> None:
    alone = {"config": {"name": "JOBS", "num_replicas": 1}}
    assert read_replication(alone).problems == []


def test_a_peer_that_is_away_is_named_though_it_is_called_current() -> None:
    never_heard = {"active": 0, "current": False, "lag": 2}  # it led the stream until it was killed
    for away in ({"active": 6 * SECOND}, {"offline": True}, never_heard):
        found = read_replication(info(peer("node-1"), peer("node-2", **away)))
        assert found.problems == ["JOBS: its replica on node-2 is unreachable"]


def test_a_peer_that_lags_is_named() -> None:
    found = read_replication(info(peer("node-1", current=False), peer("node-2")))
    assert found.problems == ["JOBS: its replica on node-1 lags behind"]


def test_a_peer_that_no_server_is_there_for_is_missed() -> None:
    [problem] = read_replication(info(peer("node-1"))).problems
    assert problem.startswith("JOBS has 2 of 3 replicas")


def test_a_stream_without_a_leader_is_broken() -> None:
    peers = (peer("node-0", active=0), peer("node-1", current=False), peer("node-2"))
    headless = read_replication(info(*peers, leader=None))
    [found, *_] = rules.check_replication([headless], "lab")
    assert (found.level, found.message.partition(":")[0]) == (Level.BROKEN, "JOBS has no leader")


async def test_health_and_doctor_warn_when_a_server_of_three_is_killed(tmp_path: Path) -> None:
    with cluster() as three:
        await three.until_ready()
        async with probe(three.url) as raw:
            await provision(raw.connection, Topology(raw.features, replicas=3))
            async with (
                daemon_at(three.url, tmp_path / "jobs.sqlite"),
                AdminClient.connect(three.url, by="ann", timeout=20) as client,
            ):

                async def told() -> str | None:
                    """None while the daemon connects to another server than the one killed."""
                    try:
                        found = (await client.health()).check("streams")
                    except (ServiceMissing, NoAnswer):
                        return None
                    assert found is not None
                    assert (found.status is HealthStatus.OK) == (found.error is None)
                    return found.error or ""

                async def all_is_well() -> bool:
                    return await told() == ""

                async def the_log_misses_it() -> bool:
                    return f"{LOG}: its replica on node-2 is unreachable" in (await told() or "")

                await until(all_is_well, "all replicas are there", deadline=40)
                three.nodes[2].kill()
                await until(the_log_misses_it, "the replica is missed", deadline=40)

            async def doctor_misses_it() -> bool:
                found = await replication_of(raw.connection, WORK)
                assert found is not None
                [missed, *_] = rules.check_replication([found], "lab")
                return missed.level is Level.WARNING and "node-2" in missed.message

            await until(doctor_misses_it, "the doctor misses the replica", deadline=40)
