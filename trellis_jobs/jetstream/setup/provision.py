"""Makes the server match a topology: idempotent, and safe to run from many services at once.

It creates what is missing, updates outdated settings, and refuses changes that would endanger
running jobs (retention, subjects, sources, storage) with an explanation. It leaves decisions of an
operator (more replicas, settings that older servers do not know) alone, and logs them. It reads
everything before it changes anything, so that a refusal leaves the server unchanged.
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
from trellis_jobs.jetstream.setup import plain_source, work_source
from trellis_jobs.jetstream.setup.plan import Act, Change, plan_streams
from trellis_jobs.model import subjects
from trellis_jobs.model.events import EventKind
from trellis_jobs.model.identity import JobAddress

log = logging.getLogger(__name__)

# Another process created the same object in between; the next plan compares it like any other.
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
    """Plan and apply the changes; plan again if another process changed something meanwhile."""
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
            log.warning("%s can be improved: %s", change.what, "; ".join(change.details))
    return ProvisionReport(list(done.values()))


async def _apply_plan(connection: Connection, topology: Topology, done: dict[str, Change]) -> bool:
    """Returns False when the rest of the plan is out of date."""
    for change in await plan(connection, topology):
        await _apply(connection, change, topology)
        if change.act is not Act.KEPT or change.name not in done:
            done[change.name] = change
        if _changes_the_source(change):
            return False  # the settings of the work queue have changed
    return True


async def plan(connection: Connection, topology: Topology) -> list[Change]:
    """Returns what `provision` would do, in order; only reads, and raises the same refusals."""
    planned = await plan_streams(connection, topology)
    for change in planned:
        if change.act is Act.REFUSED:
            raise InfrastructureMismatch(change.what, change.details)
    return planned


async def _apply(connection: Connection, change: Change, topology: Topology) -> None:
    if change.act is Act.KEPT:
        return
    if _changes_the_source(change):
        await _change_source(connection, change, topology)
        return
    reply = await api.request(connection, change.call, change.body)
    log.info(
        "%s was %s%s",
        change.name,
        change.act,
        "".join(f"; {detail}" for detail in change.details),
        extra={"act": change.act, "object": change.name, "details": change.details},
    )
    if change.name == WORK and change.is_resized:
        await _resume_source(connection, int(reply["config"]["num_replicas"]))


async def _change_source(connection: Connection, change: Change, topology: Topology) -> None:
    if change.name == WORK:
        await plain_source.add_lanes(connection, topology)
    else:
        await work_source.connect_work(connection, topology)


def _changes_the_source(change: Change) -> bool:
    return change.act is not Act.KEPT and not change.call


async def _resume_source(connection: Connection, replicas: int) -> None:
    """Step the leader down: a stream that gets replicas stops sourcing until it has a new leader.

    All server versions do that. A single server has no leader to change, and a stream that loses
    replicas continues by itself.
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
        "the new replicas of %s are not current yet, and it may not source jobs: step its leader "
        "down when they are",
        WORK,
    )


async def require_log(connection: Connection, service: str) -> None:
    """Raise unless the log exists, with one read that every service is permitted."""
    any_job = JobAddress(service, "any", "any")  # it need not exist
    subject = subjects.lifecycle(any_job, EventKind.CREATED)
    for delay in _LEADER_ELECTION_DELAYS:
        try:
            await api.newest(connection, LOG, subject)
            return
        except (ConnectionLost, NotPermitted):
            return  # the state is unknown; a later request will fail if something is wrong
        except NoResponders:
            await asyncio.sleep(delay)
    raise InfrastructureMissing(f"stream {LOG} with direct access")
