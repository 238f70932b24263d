"""The replicas of a stream, as the `cluster` part of the server's answers describes them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

# Peers hear from each other every second. A peer that was killed is called current for as long as
# nothing is written that it could miss. If it was the leader, the next leader has never heard from
# it: then `active` is 0 and it is not current.
_ACTIVE_WITHIN_NS: Final = 5_000_000_000


@dataclass(frozen=True, slots=True)
class Replication:
    """`replicas`: how many copies there should be. `leader`: None for a stream that has none.

    `away` are peers that the leader does not hear from, `lagging` those that miss messages, and
    `missing` is how many peers no server was found for.
    """

    stream: str
    replicas: int
    leader: str | None
    away: tuple[str, ...] = ()
    lagging: tuple[str, ...] = ()
    missing: int = 0
    is_clustered: bool = True

    @property
    def problems(self) -> list[str]:
        found: list[str] = []
        if self.is_clustered and self.leader is None:
            found.append(f"{self.stream} has no leader: nothing can be written to it")
        if self.away:
            found.append(f"{self.stream}: no sign of its replica on {', '.join(self.away)}")
        if self.lagging:
            found.append(f"{self.stream}: its replica on {', '.join(self.lagging)} lags behind")
        if self.missing:
            found.append(
                f"{self.stream} has {self.replicas - self.missing} of {self.replicas} replicas: "
                "no server is there for the others"
            )
        return found


def read_replication(info: Mapping[str, Any]) -> Replication:
    """From the server's answer about a stream; a server that is alone tells of no cluster."""
    config: Mapping[str, Any] = info["config"]
    cluster: Mapping[str, Any] | None = info.get("cluster")
    replicas, leader = int(config["num_replicas"]), (cluster or {}).get("leader") or None
    peers: list[Mapping[str, Any]] = (cluster or {}).get("replicas") or []
    live = {str(peer.get("name")) for peer in peers if is_live(peer)}
    behind = {str(peer.get("name")) for peer in peers if not peer.get("current")}
    # Without a leader the answer names every peer, and only the one that answers knows itself.
    known = len(peers) + (leader is not None)
    return Replication(
        stream=str(config["name"]),
        replicas=replicas,
        leader=leader,
        away=tuple(sorted({str(peer.get("name")) for peer in peers} - live)) if leader else (),
        lagging=tuple(sorted(behind & live)) if leader else (),
        missing=max(0, replicas - known) if cluster is not None else 0,
        is_clustered=cluster is not None,
    )


def is_live(peer: Mapping[str, Any]) -> bool:
    """Whether the leader hears from it; it may lag behind."""
    silent_ns = int(peer.get("active", 0))
    was_heard = silent_ns > 0 or bool(peer.get("current"))
    return not peer.get("offline") and was_heard and silent_ns < _ACTIVE_WITHIN_NS
