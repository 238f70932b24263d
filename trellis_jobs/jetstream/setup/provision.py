"""Make the server match a topology: idempotent, safe to run from many services at once.

What is missing is made, what is merely behind is brought up to date, and what would endanger
running jobs (retention, subjects, sources, storage) is refused with an explanation. What is for an
operator to decide (more replicas, settings that older servers do not know) is left as it is, and
said. Everything is looked at before anything is changed, so a refusal leaves the server as it was.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, field
from typing import Final

from trellis_jobs.contract.topology import LOG, WORK, Topology
from trellis_jobs.errors import (
    InfrastructureMismatch,
    InfrastructureMissing,
    NotPermitted,
    RequestRefused,
)
from trellis_jobs.jetstream.client import api
from trellis_jobs.jetstream.client.connection import Connection, ConnectionLost, NoResponders
from trellis_jobs.jetstream.setup import work_source
from trellis_jobs.jetstream.setup.plan import Act, Change, plan_streams
from trellis_jobs.model import subjects
from trellis_jobs.model.events import EventKind
from trellis_jobs.model.identity import JobAddress

log = logging.getLogger(__name__)

# Somebody else made the same thing in between; theirs is judged like any other.
_CREATED_BY_ANOTHER: Final = frozenset(
    {api.STREAM_NAME_IN_USE, api.CONSUMER_EXISTS, api.CONSUMER_NAME_IN_USE}
)
_ATTEMPTS: Final = 5
_SCALE_UP_TIMEOUT: Final = 30.0
_POLL_INTERVAL: Final = 0.1
_LEADER_ELECTION_DELAYS: Final = (0.05, 0.2, 0.5)


@dataclass(slots=True)
class ProvisionReport:
    changes: list[Change] = field(default_factory=list)

    @property
    def is_unchanged(self) -> bool:
        return all(change.act is Act.KEPT for change in self.changes)


async def provision(connection: Connection, topology: Topology) -> ProvisionReport:
    """Look, then change what has to be; look again if somebody else was faster."""
    done: dict[str, Change] = {}
    for attempt in range(_ATTEMPTS):
        try:
            if await _apply_plan(connection, topology, done):
                break
        except RequestRefused as refusal:
            if refusal.code not in _CREATED_BY_ANOTHER or attempt == _ATTEMPTS - 1:
                raise
    for change in done.values():
        if change.act is Act.KEPT and change.details:
            log.warning("%s could have more: %s", change.what, "; ".join(change.details))
    return ProvisionReport(list(done.values()))


async def _apply_plan(connection: Connection, topology: Topology, done: dict[str, Change]) -> bool:
    """False when the rest of the plan is out of date and has to be made again."""
    for change in await plan(connection, topology):
        await _apply(connection, change, topology)
        if change.act is not Act.KEPT or change.name not in done:
            done[change.name] = change
        if _changes_the_source(change):
            return False  # the settings of the work queue are other ones now
    return True


async def plan(connection: Connection, topology: Topology) -> list[Change]:
    """What `provision` would do, in that order; only reads, and refuses what it would refuse."""
    planned = await plan_streams(connection, topology)
    for change in planned:
        if change.act is Act.REFUSED:
            raise InfrastructureMismatch(change.what, change.details)
    return planned


async def _apply(connection: Connection, change: Change, topology: Topology) -> None:
    if change.act is Act.KEPT:
        return
    if _changes_the_source(change):
        await work_source.connect_work(connection, topology)
        return
    reply = await api.request(connection, change.call, change.body)
    log.info(
        "%s was %s%s",
        change.name,
        change.act,
        "".join(f"; {detail}" for detail in change.details),
        extra={"act": change.act, "object": change.name, "details": change.details},
    )
    if change.name == WORK and change.act is Act.UPDATED:
        await _resume_source(connection, int(reply["config"]["num_replicas"]))


def _changes_the_source(change: Change) -> bool:
    return change.name == work_source.NAME and change.act is not Act.KEPT and not change.call


async def _resume_source(connection: Connection, replicas: int) -> None:
    """A stream that grows stops sourcing until it gets another leader, on every server version.

    A server of its own has no leader to change, and a stream that shrinks goes on by itself.
    """
    if replicas == 1:
        return
    for _ in range(round(_SCALE_UP_TIMEOUT / _POLL_INTERVAL)):
        cluster = (await api.request(connection, f"STREAM.INFO.{WORK}")).get("cluster") or {}
        current = [peer for peer in cluster.get("replicas") or () if peer.get("current")]
        if cluster.get("leader") and 1 + len(current) >= replicas:
            await api.request(connection, f"STREAM.LEADER.STEPDOWN.{WORK}")
            return
        await asyncio.sleep(_POLL_INTERVAL)
    log.error(
        "%s has not grown yet and may not source jobs: step its leader down when it has", WORK
    )


async def require_log(connection: Connection, service: str) -> None:
    """Fail unless the log is there, asking no more than what every service may: one read."""
    any_job = JobAddress(service, "any", "any")  # whether there is one does not matter
    subject = subjects.lifecycle(any_job, EventKind.CREATED)
    for delay in _LEADER_ELECTION_DELAYS:
        try:
            await api.newest(connection, LOG, subject)
            return
        except (ConnectionLost, NotPermitted):
            return  # nothing was learnt; whatever is wrong will show
        except NoResponders:
            await asyncio.sleep(delay)
    raise InfrastructureMissing(f"stream {LOG} with direct access")
