"""How the work queue reads the log: through the consumer `to-work` and the source of JOBS_WORK.

The consumer delivers to a subject on which the source listens. A service that knows the subject
could point push consumers at it and so slow down every job start, so the subject is random. The
server refuses to move a consumer that has a subscriber, and a source does not notice a changed
subject, so a move takes three steps: remove the source, move the consumer, add the source.

The same steps let the source of an older installation copy jobs with a priority, which have a lane
in their subject: remove the source, correct the filter of the consumer, add the source.

The consumer keeps the position of the source, so a process that dies between two steps loses no
job: no job starts until the next provisioning takes the remaining steps.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from dataclasses import dataclass, replace
from datetime import timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

from trellis_jobs.contract.topology import (
    FILTERS,
    FIXED_DELIVERY,
    LANE_FILTERS,
    LOG,
    TO_WORK,
    WORK,
    Config,
    Topology,
    delivery_subject,
)
from trellis_jobs.errors import InfrastructureMismatch, RequestRefused
from trellis_jobs.jetstream.client import api
from trellis_jobs.jetstream.client.stored_message import moment_of, nanoseconds_of
from trellis_jobs.jetstream.setup import plain_source

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from trellis_jobs.jetstream.client.connection import Connection

log = logging.getLogger(__name__)

# The server's info about a stream or consumer, or None when it does not exist.
Info = dict[str, Any] | None

NAME: Final = f"{LOG}/{TO_WORK}"
CREATE: Final = f"CONSUMER.CREATE.{LOG}.{TO_WORK}"
STREAMS: Final = (LOG, WORK)
# The settings that must match; all others are left as an operator set them.
ESSENTIAL: Final = ("ack_policy", "filter_subjects")
_KNOWN_FILTERS: Final = ([*FILTERS], [*FILTERS, *LANE_FILTERS])
_INFO: Final = f"CONSUMER.INFO.{LOG}.{TO_WORK}"
_PAUSE: Final = f"CONSUMER.PAUSE.{LOG}.{TO_WORK}"
# A new source subscribes within 0.2 s; after a restart of the server (2.15) it takes 4 s.
_BIND_TIMEOUT: Final = 6.0
# The source acknowledges what it has stored at each heartbeat of the consumer, every second.
_DRAIN_TIMEOUT: Final = 3.0
_POLL_INTERVAL: Final = 0.05
# Longer than a move takes. The pause ends by itself if the process dies.
_PAUSE_DURATION: Final = timedelta(seconds=10)
_MAX_STEPS: Final = 20
# Another process took a step in between, so the state is read again.
_CHANGED_BY_ANOTHER: Final = frozenset(
    {api.CONSUMER_NAME_IN_USE, api.CONSUMER_EXISTS, api.CONSUMER_NOT_FOUND}
)


class Step(StrEnum):
    CREATE = "create the consumer"
    DELETE = "delete the consumer"
    AMEND = "correct the filter of the consumer"
    DETACH = "remove the source"
    MOVE = "move the consumer to a random subject"
    ATTACH = "add the source"


@dataclass(frozen=True, slots=True)
class WorkSource:
    """Both ends as the server has them; `listens_at` is None when JOBS_WORK has no source.

    `is_direct`: JOBS_WORK reads the log without the consumer, as servers before 2.14 do.
    `has_lanes`: the source copies jobs with a priority; None when JOBS_WORK has no source.
    `is_unfinished`: a process died while it added lanes to a source without the consumer.
    `has_work`: JOBS_WORK exists. `last_in_log` is the newest sequence of the log.
    """

    consumer: Config | None
    listens_at: str | None
    is_bound: bool = False
    is_direct: bool = False
    has_lanes: bool | None = None
    is_unfinished: bool = False
    has_work: bool = True
    last_in_log: int = 0

    @property
    def delivers_to(self) -> str | None:
        return None if self.consumer is None else self.consumer.get("deliver_subject")

    @property
    def subject(self) -> str:
        """The current subject, or a new random one that services cannot learn."""
        found = self.delivers_to or self.listens_at
        return found or delivery_subject(secrets.token_hex(16))

    @property
    def is_disconnected(self) -> bool:
        """No job starts, because the source does not listen where the consumer delivers."""
        if self.consumer is None or self.is_direct:
            return False
        return self.listens_at != self.delivers_to

    @property
    def lacks_lanes(self) -> bool:
        """An older version of this library created the source, or the consumer."""
        return self.has_lanes is False or self._consumer_lacks_lanes

    @property
    def _consumer_lacks_lanes(self) -> bool:
        return self.consumer is not None and self.consumer.get("filter_subjects") == [*FILTERS]

    def adapt(self, topology: Topology) -> Topology:
        """Returns the topology with what an existing work queue keeps.

        Only an operator adds lanes, because older versions of this library refuse to start then.
        """
        found = not self._consumer_lacks_lanes if self.has_lanes is None else self.has_lanes
        is_possible = not self.is_direct or plain_source.can_add_lanes(topology.features)
        is_to_add = topology.by_operator and self.has_work and is_possible
        return replace(topology, work_delivery=self.subject, with_lanes=found or is_to_add)


def wrong_settings(consumer: Config, desired: Config) -> list[str]:
    """Returns the settings of `to-work` that no version of this library gives it."""
    return [
        key
        for key in ESSENTIAL
        if consumer.get(key) != desired[key]
        and not (key == "filter_subjects" and consumer.get(key) in _KNOWN_FILTERS)
    ]


def next_step(found: WorkSource, desired: Config, *, by_operator: bool) -> Step | None:
    """Returns the next step towards a work queue that reads the log, or None if it does.

    Only an operator may move the well-known subject, add lanes, correct a consumer, or restart a
    source that does not listen: older versions of this library refuse what they do not know.
    """
    if found.consumer is None:
        return Step.CREATE
    if not by_operator:
        if found.listens_at is None:
            return Step.ATTACH
        return Step.DETACH if found.is_disconnected else None
    return _repair(found, found.consumer, desired) or _renewal(found)


def _repair(found: WorkSource, consumer: Config, desired: Config) -> Step | None:
    wrong = wrong_settings(consumer, desired)
    if "ack_policy" in wrong:
        return Step.DELETE
    is_to_extend = found.listens_at is None and found.lacks_lanes
    return Step.AMEND if wrong or is_to_extend else None


def _renewal(found: WorkSource) -> Step | None:
    is_to_move = found.delivers_to == FIXED_DELIVERY
    if found.listens_at is None:
        return Step.MOVE if is_to_move else Step.ATTACH
    is_outdated = is_to_move or found.lacks_lanes
    return Step.DETACH if is_outdated or found.is_disconnected or not found.is_bound else None


def consumer_body(topology: Topology, *, skipped: int = 0) -> Config:
    """Returns the request that creates `to-work`.

    If the work queue exists, the consumer starts at the first event, and the source skips what it
    has stored. The source does not acknowledge skipped events, so after 1,000 of them the consumer
    would stop (2.14.6 and 2.15.1). max_ack_pending must allow for all of them.
    """
    desired = topology.to_work() or {}
    max_ack_pending = desired["max_ack_pending"] + skipped
    config = desired | {"max_ack_pending": max_ack_pending}
    return {"stream_name": LOG, "action": "create", "config": config}


async def read_work_source(
    connection: Connection, topology: Topology, streams: Mapping[str, Info] | None = None
) -> WorkSource:
    """Reads both ends; `streams` is info that the caller has just read.

    For an operator it waits for a source that does not listen yet.
    """
    for _ in range(round(_BIND_TIMEOUT / _POLL_INTERVAL)):
        if streams is None:
            streams = {each: await api.find(connection, f"STREAM.INFO.{each}") for each in STREAMS}
        found = _read(await api.find(connection, _INFO), streams)
        if not topology.by_operator or not _may_bind_soon(found, topology):
            break
        streams = None
        await asyncio.sleep(_POLL_INTERVAL)
    return found


def _may_bind_soon(found: WorkSource, topology: Topology) -> bool:
    if found.consumer is None or found.is_bound or found.is_disconnected or found.is_direct:
        return False
    return not wrong_settings(found.consumer, topology.to_work() or found.consumer)


def _read(consumer: Info, streams: Mapping[str, Info]) -> WorkSource:
    work, log_info = streams[WORK], streams[LOG]
    sources = (work["config"].get("sources") or ()) if work else ()
    subjects = [each["consumer"]["deliver_subject"] for each in sources if each.get("consumer")]
    copied = [each["src"] for source in sources for each in source.get("subject_transforms") or ()]
    return WorkSource(
        consumer=None if consumer is None else consumer["config"],
        listens_at=subjects[0] if subjects else None,
        is_bound=bool(consumer and consumer.get("push_bound")),
        is_direct=bool(sources) and not subjects,
        has_lanes=not set(LANE_FILTERS).isdisjoint(copied) if sources else None,
        is_unfinished=not subjects and any(plain_source.START in each for each in sources),
        has_work=work is not None,
        last_in_log=int(log_info["state"]["last_seq"]) if log_info else 0,
    )


async def connect_work(connection: Connection, topology: Topology) -> None:
    """Take one step after the other until the work queue reads the log.

    Another process may have taken the first steps.
    """
    for _ in range(_MAX_STEPS):
        found = await read_work_source(connection, topology)
        adapted = found.adapt(topology)
        step = next_step(found, adapted.to_work() or {}, by_operator=topology.by_operator)
        if step is None:
            await _resume(connection)
            return
        log.info("connecting the work queue with the log: %s", step.value)
        try:
            await _apply_step(connection, step, found, adapted)
        except RequestRefused as refusal:
            if refusal.code not in _CHANGED_BY_ANOTHER:
                raise
    raise InfrastructureMismatch(
        f"consumer {TO_WORK} of {LOG}",
        ("other processes keep changing it: run one `trellis-jobs infra apply` at a time",),
    )


async def _apply_step(
    connection: Connection, step: Step, found: WorkSource, topology: Topology
) -> None:
    desired, known = topology.to_work() or {}, found.consumer or {}
    match step:
        case Step.CREATE:
            body = consumer_body(topology, skipped=found.last_in_log)
            await api.request(connection, CREATE, body)
        case Step.DELETE:
            await api.request(connection, f"CONSUMER.DELETE.{LOG}.{TO_WORK}")
        case Step.AMEND:
            await _update(connection, known | {"filter_subjects": desired["filter_subjects"]})
        case Step.DETACH:
            if found.is_bound:
                await _wait_until_acknowledged(connection)
            await _set_sources(connection, [])
        case Step.MOVE:
            subject = delivery_subject(secrets.token_hex(16))
            await _update(connection, known | {"deliver_subject": subject})
        case Step.ATTACH:
            await _set_sources(connection, topology.work()["sources"])


async def _wait_until_acknowledged(connection: Connection) -> None:
    """Pause the consumer for some seconds, so that no event is copied twice.

    A second copy is harmless: the worker that gets it sees that the job has started, and drops it.
    """
    info = await api.request(connection, _INFO)
    until = _server_time(info) + _PAUSE_DURATION
    await api.request(connection, _PAUSE, {"pause_until": until.isoformat()})
    for _ in range(round(_DRAIN_TIMEOUT / _POLL_INTERVAL)):
        if is_all_acknowledged(await api.request(connection, _INFO)):
            return
        await asyncio.sleep(_POLL_INTERVAL)


def is_all_acknowledged(info: dict[str, Any]) -> bool:
    """True if the source has confirmed everything that the consumer has delivered.

    `num_ack_pending` does not say so: after a restart of the server it may count events for ever
    that were confirmed (seen on 2.15.1).
    """
    return int(info["ack_floor"]["stream_seq"]) >= int(info["delivered"]["stream_seq"])


async def _resume(connection: Connection) -> None:
    """End the pause of a move; an operator's pause lasts longer and is kept."""
    info = await api.request(connection, _INFO)
    remaining = timedelta(microseconds=int(info.get("pause_remaining") or 0) // 1000)
    if info.get("paused") and remaining <= _PAUSE_DURATION:
        await api.request(connection, _PAUSE)


async def _update(connection: Connection, config: Config) -> None:
    body = {"stream_name": LOG, "action": "update", "config": config}
    await api.request(connection, CREATE, body)


async def _set_sources(connection: Connection, sources: list[Config]) -> None:
    work = (await api.request(connection, f"STREAM.INFO.{WORK}"))["config"]
    await api.request(connection, f"STREAM.UPDATE.{WORK}", {**work, "sources": sources})


def _server_time(info: dict[str, Any]) -> datetime:
    return moment_of(nanoseconds_of(info["ts"]))
