"""The replicas of a stream, as the `cluster` part of the stream info describes them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

# Peers contact each other every second. A killed peer counts as current until something is written
# that it misses. If it was the leader, the next leader has had no contact with it: then `active` is
# 0 and it is not current.
_ACTIVE_WITHIN_NS: Final = 5_000_000_000


@dataclass(frozen=True, slots=True)
class Replication:
    """`replicas` is the configured number. `leader` is None for a stream without a leader.

    `unreachable` are peers without contact to the leader, `lagging` peers that miss messages, and
    `missing` is how many replicas have no server.
    """

    stream: str
    replicas: int
    leader: str | None
    unreachable: tuple[str, ...] = ()
    lagging: tuple[str, ...] = ()
    missing: int = 0
    is_clustered: bool = True

    @property
    def problems(self) -> list[str]:
        found: list[str] = []
        if self.is_clustered and self.leader is None:
            found.append(f"{self.stream} has no leader: nothing can be written to it")
        if self.unreachable:
            servers = ", ".join(self.unreachable)
            found.append(f"{self.stream}: its replica on {servers} is unreachable")
        if self.lagging:
            found.append(f"{self.stream}: its replica on {', '.join(self.lagging)} lags behind")
        if self.missing:
            found.append(
                f"{self.stream} has {self.replicas - self.missing} of {self.replicas} replicas: "
                "there are too few servers for the others"
            )
        return found


def read_replication(info: Mapping[str, Any]) -> Replication:
    """Reads the stream info; a server that is not clustered sends no `cluster` part."""
    config: Mapping[str, Any] = info["config"]
    cluster: Mapping[str, Any] | None = info.get("cluster")
    replicas, leader = int(config["num_replicas"]), (cluster or {}).get("leader") or None
    peers: list[Mapping[str, Any]] = (cluster or {}).get("replicas") or []
    active_peers = {str(peer.get("name")) for peer in peers if is_live(peer)}
    behind = {str(peer.get("name")) for peer in peers if not peer.get("current")}
    # Without a leader the info lists every peer; with one, it lists all but the leader.
    known = len(peers) + (leader is not None)
    return Replication(
        stream=str(config["name"]),
        replicas=replicas,
        leader=leader,
        unreachable=tuple(sorted({str(peer.get("name")) for peer in peers} - active_peers))
        if leader
        else (),
        lagging=tuple(sorted(behind & active_peers)) if leader else (),
        missing=max(0, replicas - known) if cluster is not None else 0,
        is_clustered=cluster is not None,
    )


def is_live(peer: Mapping[str, Any]) -> bool:
    """Returns whether the leader has contact with the peer, which may lag behind."""
    inactive_ns = int(peer.get("active", 0))
    has_been_active = inactive_ns > 0 or bool(peer.get("current"))
    return not peer.get("offline") and has_been_active and inactive_ns < _ACTIVE_WITHIN_NS
