"""Compares a topology with the server: what would be created, updated or refused."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

from trellis_jobs.contract.topology import (
    FIXED_DELIVERY,
    LOG,
    WORK,
    Config,
    Topology,
)
from trellis_jobs.jetstream.client import api
from trellis_jobs.jetstream.setup import work_source
from trellis_jobs.jetstream.setup.plain_source import can_add_lanes
from trellis_jobs.model import subjects

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from trellis_jobs.jetstream.client.connection import Connection
    from trellis_jobs.jetstream.setup.work_source import Info, WorkSource

_OTHER_SOURCE: Final = "other sources would enqueue jobs twice, or never"
DANGEROUS: Final[Mapping[str, str]] = {
    "retention": "another retention would drop unfinished jobs, or keep them for ever",
    "subjects": "other subjects would miss events, or store messages that are no events",
    "sources": _OTHER_SOURCE,
    "storage": "storage can be changed only by deleting the stream",
    **dict.fromkeys(work_source.ESSENTIAL, _OTHER_SOURCE),
}
# Each queue and each read of a job's history needs a consumer, and from 2.15 on "no limit" (-1)
# means a thousand. Servers accept this setting only when a stream is created.
_ONLY_AT_CREATION: Final[Mapping[str, Config]] = {
    LOG: {"max_consumers": 100_000},
    WORK: {"max_consumers": 100_000},
}
# A server that does not know such a setting cannot hold a stream that has it: during the upgrade of
# a cluster the log would have no leader (seen with two servers of 2.12.8 and one of 2.15.1), and
# the setting cannot be removed. allow_msg_ttl is different: 2.10 ignores it (seen with 2.11.11 and
# 2.15.1, and after a downgrade), and newer servers refuse heartbeats without it.
_UNKNOWN_BEFORE: Final[Mapping[str, str]] = {
    "allow_atomic": "2.12",
    "allow_msg_schedules": "2.12",
    "allow_batched": "2.14",
}
_MISSING: Final = object()
_NO_LANES: Final = "it does not copy jobs with a priority, which a later version will have"
_NO_WAY_BACK: Final = "after the change older versions of this library cannot start"
_COPIED_AGAIN: Final = "jobs of the last seconds are enqueued once more, and workers drop those"
_UNFINISHED: Final = "a change of its source was interrupted"
_LANE_HINT: Final = (
    f"{_NO_LANES}: `trellis-jobs infra apply` changes that; run it when no older version of this "
    "library is in use, because older versions cannot start afterwards"
)


class Act(StrEnum):
    CREATED = "created"
    UPDATED = "updated"
    KEPT = "kept"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class Change:
    """One stream or consumer; `call` and `body` are the request that applies the change.

    Without a `call`, several requests are needed: `work_source.py` and `plain_source.py`.
    `is_resized`: the stream gets another number of replicas.
    """

    act: Act
    name: str
    details: tuple[str, ...] = ()
    call: str = field(default="", repr=False, compare=False)
    body: Config | None = field(default=None, repr=False, compare=False)
    is_resized: bool = field(default=False, repr=False, compare=False)

    @property
    def what(self) -> str:
        stream, _, consumer = self.name.partition("/")
        return f"consumer {consumer} of {stream}" if consumer else f"stream {stream}"


async def plan_streams(connection: Connection, topology: Topology) -> list[Change]:
    """Plans the streams and the source of the work queue, in the order of creation."""
    found = {
        config["name"]: await api.find(connection, f"STREAM.INFO.{config['name']}")
        for config in topology.streams()
    }
    source = await work_source.read_work_source(connection, topology, found)
    topology = source.adapt(topology)
    log_config = _config(found[LOG])
    log_replicas = 1 if log_config is None else int(log_config["num_replicas"])
    changes = []
    for desired in topology.streams():
        name = desired["name"]
        if name == WORK and _is_changed_in_steps(source, _config(found[WORK]), topology):
            del desired["sources"]
        if found[name] is None and topology.replicas is None:
            # A stream that a newer version adds survives what the log survives.
            desired["num_replicas"] = max(desired["num_replicas"], log_replicas)
        change = _plan_stream(desired, _config(found[name]), topology)
        if name == WORK and source.is_direct:
            change = _plan_plain_source(change, source, topology)
        changes.append(change)
        if name == LOG:
            changes += _plan_to_work(topology, source)
    return changes


async def plan_queue(connection: Connection, desired: Config) -> Change:
    """Plans the consumer of one queue as its service would create it."""
    # Imported here, because a producer loads this module and creates no consumer.
    from trellis_jobs.jetstream.work.consumer_setup import incompatible_settings, outdated_settings  # noqa: PLC0415

    name = f"{WORK}/{desired['name']}"
    found = _config(await api.find(connection, f"CONSUMER.INFO.{WORK}.{desired['name']}"))
    if found is None:
        return Change(Act.CREATED, name)
    if differences := incompatible_settings(desired, found):
        return Change(Act.REFUSED, name, tuple(differences))
    outdated = tuple(outdated_settings(desired, found))
    return Change(Act.UPDATED if outdated else Act.KEPT, name, outdated)


def _plan_stream(desired: Config, found: Config | None, topology: Topology) -> Change:
    name = desired["name"]
    if found is None:
        body = desired | _ONLY_AT_CREATION.get(name, {})
        return Change(Act.CREATED, name, call=f"STREAM.CREATE.{name}", body=body)
    differing = {
        key: value
        for key, value in desired.items()
        if not _same(key, value, found.get(key, _MISSING), topology)
    }
    if dangerous := DANGEROUS.keys() & differing.keys():
        dangers = _dangers(dangerous, desired, found)
        return Change(Act.REFUSED, name, (*dangers, *_foreign_runtime_hint(name, found)))
    unknown = [key for key in _UNKNOWN_BEFORE if key in differing]
    if not topology.by_operator:
        for key in unknown:
            del differing[key]
    if not differing:
        hints = (*_replica_hint(desired, found), *map(_setting_hint, unknown))
        return Change(Act.KEPT, name, hints)
    details = tuple(_explain(key, value, found.get(key)) for key, value in differing.items())
    # Send all found settings back, so that those that this library does not know survive.
    body = {**found, **differing}
    is_resized = "num_replicas" in differing
    return Change(Act.UPDATED, name, details, f"STREAM.UPDATE.{name}", body, is_resized)


def _is_changed_in_steps(source: WorkSource, work: Config | None, topology: Topology) -> bool:
    """Whether the source is corrected by several requests, and not with the stream's settings."""
    return work is not None and (source.is_disconnected or _lacks_only_lanes(work, topology))


def _lacks_only_lanes(work: Config, topology: Topology) -> bool:
    """Whether an operator may change the sources, because only those for lanes are missing."""
    former = replace(topology, with_lanes=False).work()["sources"]
    found = _relevant_parts(work.get("sources") or [])
    return topology.with_lanes and found == _relevant_parts(former)


def _plan_plain_source(work: Change, found: WorkSource, topology: Topology) -> Change:
    """A source without a consumer, from before 2.14, gets lanes and stays as it is otherwise."""
    is_outdated = found.lacks_lanes or found.is_unfinished
    if work.act is Act.REFUSED or not (is_outdated and can_add_lanes(topology.features)):
        return work
    if topology.by_operator:
        lanes = (_NO_LANES, _NO_WAY_BACK, _COPIED_AGAIN) if found.lacks_lanes else (_UNFINISHED,)
        return Change(Act.UPDATED, WORK, (*lanes, *work.details))
    hints = _lane_hint(found) if work.act is Act.KEPT else ()
    return replace(work, details=(*work.details, *hints))


def _plan_to_work(topology: Topology, found: WorkSource) -> list[Change]:
    """A work queue that was created before 2.14 reads the log without a consumer, and is kept."""
    desired = topology.to_work()
    if desired is None or found.is_direct:
        return []
    if found.consumer is None:
        return _plan_missing_consumer(topology, found)
    wrong = work_source.wrong_settings(found.consumer, desired)
    if wrong and not (topology.by_operator and found.has_work):
        return [Change(Act.REFUSED, work_source.NAME, _dangers(wrong, desired, found.consumer))]
    step = work_source.next_step(found, desired, by_operator=topology.by_operator)
    if step is None or not found.has_work:
        return [Change(Act.KEPT, work_source.NAME, (*_move_hint(found), *_lane_hint(found)))]
    details = [_describe(key, desired[key], found.consumer.get(key)) for key in wrong]
    outdated = _outdated(found) if topology.by_operator else ()
    return [Change(Act.UPDATED, work_source.NAME, (*details, *_disconnection(found), *outdated))]


def _plan_missing_consumer(topology: Topology, found: WorkSource) -> list[Change]:
    if not found.has_work:
        body = work_source.consumer_body(topology)
        return [Change(Act.CREATED, work_source.NAME, (), work_source.CREATE, body)]
    if found.listens_at is None:
        return []  # not created by this library: the change of the stream reports the problem
    return [Change(Act.CREATED, work_source.NAME)]


def _move_hint(found: WorkSource) -> tuple[str, ...]:
    if found.delivers_to != FIXED_DELIVERY:
        return ()
    return (
        "every service knows its deliver_subject and can slow down job starts: "
        "`trellis-jobs infra apply` makes it random; run it when no older version of this library "
        "is in use",
    )


def _lane_hint(found: WorkSource) -> tuple[str, ...]:
    if found.is_unfinished:
        return (f"{_UNFINISHED}: `trellis-jobs infra apply` finishes it",)
    return (_LANE_HINT,) if found.lacks_lanes else ()


def _disconnection(found: WorkSource) -> tuple[str, ...]:
    if found.listens_at is None:
        return (f"no job starts: {WORK} has no source, because a change of it was interrupted",)
    if found.is_disconnected:
        return (f"no job starts: {WORK} listens at another subject than it delivers to",)
    if not found.is_bound:
        return (f"no job starts: the source of {WORK} does not listen to it",)
    return ()


def _outdated(found: WorkSource) -> tuple[str, ...]:
    """What an operator changes although jobs start."""
    details = []
    if found.delivers_to == FIXED_DELIVERY:
        details.append("deliver_subject should be random, is known to every service")
    if found.lacks_lanes:
        details.append(_NO_LANES)
    return (*details, _NO_WAY_BACK) if details else ()


def _foreign_runtime_hint(name: str, found: Config) -> tuple[str, ...]:
    transforms = [
        transform
        for source in found.get("sources") or ()
        for transform in source.get("subject_transforms") or ()
    ]
    if name != WORK or not any(each["dest"] in subjects.WORK_WITHOUT_IDS for each in transforms):
        return ()
    return (
        f"{WORK} was created by another Trellis runtime, whose work subjects have no job id. Both "
        f"can share {WORK} only as this library creates it: stop all workers, disable provisioning "
        f"in the other runtime, delete {WORK} (every job stays in {LOG}), and run "
        "`trellis-jobs infra apply`. See docs/operate/provisioning.md",
    )


def _dangers(differing: Iterable[str], desired: Config, found: Config) -> tuple[str, ...]:
    return tuple(
        f"{_describe(key, desired[key], found.get(key))} ({DANGEROUS[key]})"
        for key in sorted(differing)
    )


def _config(found: Info) -> Config | None:
    return None if found is None else found["config"]


def _same(key: str, desired: Any, found: Any, topology: Topology) -> bool:
    if key == "sources" and isinstance(found, list):
        return _relevant_parts(desired) == _relevant_parts(found)
    if key == "num_replicas" and topology.replicas is None:
        # Adding replicas stops publishes for seconds, and removing them loses safety, so both
        # happen only on request.
        return True
    if found is _MISSING:
        return desired is False  # the server omits false
    return bool(desired == found)


def _relevant_parts(sources: list[Config]) -> list[tuple[str, list[Mapping[str, str]]]]:
    """A source without a consumer, from an older server, is kept: a change would replay jobs."""
    return [(source["name"], source.get("subject_transforms") or []) for source in sources]


def _replica_hint(desired: Config, found: Config) -> tuple[str, ...]:
    has, could = found["num_replicas"], desired["num_replicas"]
    if could <= has:
        return ()
    return (f"num_replicas is {has}, the cluster can hold {could}: set replicas to change it",)


def _setting_hint(key: str) -> str:
    needed = f"when no server is older than {_UNKNOWN_BEFORE[key]}"
    return f"{key} is off: `trellis-jobs infra apply` turns it on, {needed}"


def _explain(key: str, desired: object, found: object) -> str:
    described = _describe(key, desired, found)
    if key not in _UNKNOWN_BEFORE:
        return described
    return (
        f"{described} (afterwards no server older than {_UNKNOWN_BEFORE[key]} can hold the stream)"
    )


def _describe(key: str, desired: object, found: object) -> str:
    return f"{key} should be {desired!r}, is {found!r}"
