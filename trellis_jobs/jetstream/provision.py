"""Make the server match a topology: idempotent, safe to run from many services at once.

What is missing is made, what is merely behind is brought up to date, and what would endanger
running jobs (retention, subjects, sources, storage) is refused with an explanation. Everything is
looked at before anything is changed, so a refusal leaves the server as it was.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

from trellis_jobs.contract.topology import LOG, TO_WORK, WORK, Config, Topology
from trellis_jobs.errors import (
    InfrastructureMismatch,
    InfrastructureMissing,
    NotPermitted,
    RequestRefused,
)
from trellis_jobs.jetstream import api
from trellis_jobs.jetstream.connection import Connection, ConnectionLost, NoResponders
from trellis_jobs.model import subjects
from trellis_jobs.model.events import EventKind
from trellis_jobs.model.identity import JobAddress

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

log = logging.getLogger(__name__)

_OTHER_SOURCE: Final = "other sources enqueue jobs again, or never"
_OF_THE_SOURCE: Final = ("deliver_subject", "ack_policy", "filter_subjects")
DANGEROUS: Final[Mapping[str, str]] = {
    "retention": "another retention drops jobs that are not done, or keeps them for ever",
    "subjects": "other subjects miss events, or take in messages that are none",
    "sources": _OTHER_SOURCE,
    "storage": "storage can be changed only by deleting what is stored",
    **dict.fromkeys(_OF_THE_SOURCE, _OTHER_SOURCE),
}
# Somebody else made the same thing in between; theirs is judged like any other.
_OVERTAKEN: Final = frozenset(
    {api.STREAM_NAME_IN_USE, api.CONSUMER_EXISTS, api.CONSUMER_NAME_IN_USE}
)
_ROUNDS: Final = 5
_GROWN_WITHIN: Final = 30.0
_LOOK: Final = 0.1
_LEADER_ELECTION: Final = (0.05, 0.2, 0.5)
# One consumer for each queue, and one for each read of a job's history: "no limit" (-1) means a
# thousand to servers from 2.15 on. Servers take this only when a stream is made.
_WHEN_MADE: Final[Mapping[str, Config]] = {
    LOG: {"max_consumers": 100_000},
    WORK: {"max_consumers": 100_000},
}
_MISSING: Final = object()


class Act(StrEnum):
    CREATED = "created"
    UPDATED = "updated"
    KEPT = "kept"


@dataclass(frozen=True, slots=True)
class Change:
    """One stream or consumer; `call` and `body` are the request that makes it so."""

    act: Act
    name: str
    details: tuple[str, ...] = ()
    call: str = field(default="", repr=False, compare=False)
    body: Config | None = field(default=None, repr=False, compare=False)


@dataclass(slots=True)
class Report:
    changes: list[Change] = field(default_factory=list)

    @property
    def is_unchanged(self) -> bool:
        return all(change.act is Act.KEPT for change in self.changes)


async def provision(connection: Connection, topology: Topology) -> Report:
    """Look, then change what has to be; look again if somebody else was faster."""
    done: dict[str, Change] = {}
    for round_ in range(_ROUNDS):
        planned = await plan(connection, topology)
        try:
            for change in planned:
                await _carry_out(connection, change)
                if change.act is not Act.KEPT or change.name not in done:
                    done[change.name] = change
            break
        except RequestRefused as refusal:
            if refusal.code not in _OVERTAKEN or round_ == _ROUNDS - 1:
                raise
    return Report(list(done.values()))


async def plan(connection: Connection, topology: Topology) -> list[Change]:
    """What `provision` would do, in that order; only reads, and refuses what it would refuse."""
    found = {
        config["name"]: await _config(connection, f"STREAM.INFO.{config['name']}")
        for config in topology.streams()
    }
    changes = []
    for desired in topology.streams():
        changes.append(_judge_stream(desired, found[desired["name"]], topology))
        if desired["name"] == LOG and _sources_durably(found[WORK]):
            changes += await _judge_to_work(connection, topology)
    return changes


async def _carry_out(connection: Connection, change: Change) -> None:
    if change.act is Act.KEPT:
        return
    answer = await api.request(connection, change.call, change.body)
    log.info(
        "infrastructure changed",
        extra={"act": change.act, "object": change.name, "details": change.details},
    )
    if change.name == WORK and change.act is Act.UPDATED:
        await _resume_source(connection, int(answer["config"]["num_replicas"]))


async def _resume_source(connection: Connection, replicas: int) -> None:
    """A stream that grows stops sourcing until it gets another leader, on every server version.

    A server of its own has no leader to change, and a stream that shrinks goes on by itself.
    """
    if replicas == 1:
        return
    for _ in range(round(_GROWN_WITHIN / _LOOK)):
        cluster = (await api.request(connection, f"STREAM.INFO.{WORK}")).get("cluster") or {}
        current = [peer for peer in cluster.get("replicas") or () if peer.get("current")]
        if cluster.get("leader") and 1 + len(current) >= replicas:
            await api.request(connection, f"STREAM.LEADER.STEPDOWN.{WORK}")
            return
        await asyncio.sleep(_LOOK)
    log.error(
        "%s has not grown yet and may not source jobs: step its leader down when it has", WORK
    )


async def require_log(connection: Connection, service: str) -> None:
    """Fail unless the log is there, asking no more than what every service may: one read."""
    any_job = JobAddress(service, "any", "any")  # whether there is one does not matter
    subject = f"{api.PREFIX}.DIRECT.GET.{LOG}.{subjects.lifecycle(any_job, EventKind.CREATED)}"
    for pause in _LEADER_ELECTION:
        try:
            await connection.ask(subject, timeout=api.TIMEOUT)
            return
        except (ConnectionLost, NotPermitted):
            return  # nothing was learnt; whatever is wrong will show
        except NoResponders:
            await asyncio.sleep(pause)
    raise InfrastructureMissing(f"stream {LOG} with direct access")


def _judge_stream(desired: Config, found: Config | None, topology: Topology) -> Change:
    name = desired["name"]
    if found is None:
        body = desired | _WHEN_MADE.get(name, {})
        return Change(Act.CREATED, name, call=f"STREAM.CREATE.{name}", body=body)
    differing = {
        key: value
        for key, value in desired.items()
        if not _same(key, value, found.get(key, _MISSING), topology)
    }
    _refuse(f"stream {name}", DANGEROUS.keys() & differing.keys(), desired, found)
    if not differing:
        return Change(Act.KEPT, name, _could_grow(desired, found))
    details = tuple(_describe(key, value, found.get(key)) for key, value in differing.items())
    # What is found goes back as it came, so that settings this library does not know survive.
    body = {**found, **differing}
    return Change(Act.UPDATED, name, details, f"STREAM.UPDATE.{name}", body)


async def _judge_to_work(connection: Connection, topology: Topology) -> list[Change]:
    desired = topology.to_work()
    if desired is None:
        return []
    name = f"{LOG}/{TO_WORK}"
    found = await _config(connection, f"CONSUMER.INFO.{LOG}.{TO_WORK}")
    if found is None:
        body = {"stream_name": LOG, "action": "create", "config": desired}
        return [Change(Act.CREATED, name, call=f"CONSUMER.CREATE.{LOG}.{TO_WORK}", body=body)]
    differing = [key for key in _OF_THE_SOURCE if desired[key] != found.get(key)]
    _refuse(f"consumer {TO_WORK} of {LOG}", differing, desired, found)
    return [Change(Act.KEPT, name)]


def _refuse(what: str, differing: Iterable[str], desired: Config, found: Config) -> None:
    differences = [
        f"{_describe(key, desired[key], found.get(key))} ({DANGEROUS[key]})"
        for key in sorted(differing)
    ]
    if differences:
        raise InfrastructureMismatch(what, differences)


async def _config(connection: Connection, call: str) -> Config | None:
    """The settings in force, or None when there is no such stream or consumer."""
    try:
        config: Config = (await api.request(connection, call))["config"]
    except RequestRefused as refusal:
        if refusal.code in (api.STREAM_NOT_FOUND, api.CONSUMER_NOT_FOUND):
            return None
        raise
    return config


def _same(key: str, desired: Any, found: Any, topology: Topology) -> bool:
    if key == "sources" and isinstance(found, list):
        return _essence(desired) == _essence(found)
    if key == "num_replicas" and topology.replicas is None:
        return True  # growing stops publishes for seconds, shrinking loses safety: only when told
    if found is _MISSING:
        return desired is False  # the server leaves false out
    return bool(desired == found)


def _essence(sources: list[Config]) -> list[tuple[str, list[Mapping[str, str]]]]:
    """Plain sourcing that an older server began with is kept: changing it would replay jobs."""
    return [(source["name"], source.get("subject_transforms") or []) for source in sources]


def _sources_durably(work: Config | None) -> bool:
    return work is None or any("consumer" in source for source in work.get("sources") or ())


def _could_grow(desired: Config, found: Config) -> tuple[str, ...]:
    has, could = found["num_replicas"], desired["num_replicas"]
    if could <= has:
        return ()
    log.warning("%s has %d replicas, this cluster can hold %d", found["name"], has, could)
    return (f"num_replicas is {has}, the cluster can hold {could}: set replicas to change it",)


def _describe(key: str, desired: object, found: object) -> str:
    return f"{key} should be {desired!r}, is {found!r}"
