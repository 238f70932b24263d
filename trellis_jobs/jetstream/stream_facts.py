"""What the server says about its streams and consumers: for people who look after them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

import orjson

from trellis_jobs.contract.topology import (
    ADVISORIES,
    ADVISORY_CONSUMER,
    LOG,
    WORK,
    consumer_name,
)
from trellis_jobs.errors import InfrastructureMissing, NotConfirmed, RequestRefused
from trellis_jobs.jetstream import api, stored_messages
from trellis_jobs.jetstream.connection import ConnectionLost, NoResponders
from trellis_jobs.model import subjects
from trellis_jobs.wire.fields import BadField, moment

if TYPE_CHECKING:
    from trellis_jobs.jetstream.connection import Connection
    from trellis_jobs.model.identity import JobAddress

_NOT_FOUND: Final = frozenset({api.STREAM_NOT_FOUND, api.CONSUMER_NOT_FOUND, 10037})
_MICROSECOND: Final = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class StreamSize:
    name: str
    messages: int
    bytes: int
    first_sequence: int
    last_sequence: int
    consumers: int


@dataclass(frozen=True, slots=True)
class QueueConsumer:
    """A queue's consumer. `asking`: pulls that wait for work, so workers with a free hand."""

    pending: int
    unanswered: int
    asking: int
    ack_wait: timedelta
    delivery_limit: int | None
    is_paused: bool
    pause_remaining: timedelta | None


@dataclass(frozen=True, slots=True)
class AdvisoryBacklog:
    count: int
    oldest_at: datetime | None


@dataclass(frozen=True, slots=True)
class StoredMessage:
    sequence: int
    stored_at: datetime


async def stream_size(connection: Connection, name: str) -> StreamSize | None:
    """None when there is no such stream."""
    info = await _info(connection, f"STREAM.INFO.{name}")
    if info is None:
        return None
    state: dict[str, Any] = info["state"]
    return StreamSize(
        name,
        int(state["messages"]),
        int(state["bytes"]),
        int(state["first_seq"]),
        int(state["last_seq"]),
        int(state["consumer_count"]),
    )


async def queue_consumer(
    connection: Connection, service: str, job_type: str
) -> QueueConsumer | None:
    """None when no worker of the queue was ever started."""
    name = consumer_name(service, job_type)
    info = await _info(connection, f"CONSUMER.INFO.{WORK}.{name}")
    if info is None:
        return None
    config: dict[str, Any] = info["config"]
    limit, remaining = int(config.get("max_deliver", -1)), info.get("pause_remaining")
    return QueueConsumer(
        pending=int(info.get("num_pending", 0)),
        unanswered=int(info.get("num_ack_pending", 0)),
        asking=int(info.get("num_waiting", 0)),
        ack_wait=_duration(config.get("ack_wait", 0)),
        delivery_limit=limit if limit > 0 else None,
        is_paused=bool(info.get("paused")),
        pause_remaining=None if remaining is None else _duration(remaining),
    )


async def advisory_backlog(connection: Connection) -> AdvisoryBacklog | None:
    """Advisories that nobody has dealt with; None when nobody has ever consumed them."""
    consumer = await _info(connection, f"CONSUMER.INFO.{ADVISORIES}.{ADVISORY_CONSUMER}")
    if consumer is None:
        return None
    count = int(consumer["num_pending"]) + int(consumer["num_ack_pending"])
    if count == 0:
        return AdvisoryBacklog(0, None)
    answered = int(consumer["ack_floor"]["stream_seq"])
    oldest = await stored_messages.next_from(connection, ADVISORIES, ">", answered + 1)
    return AdvisoryBacklog(count, oldest.stored_at if oldest else None)


async def has_work_message(connection: Connection, job: JobAddress) -> bool:
    """Whether a message stands for the job in the work queue."""
    call = f"STREAM.MSG.GET.{WORK}"
    return await _info(connection, call, {"last_by_subj": subjects.work(job)}) is not None


async def next_in_log(connection: Connection, after: int) -> StoredMessage | None:
    """The first message of the log after a sequence; there may be gaps, and none at the end."""
    wanted = {"seq": after + 1, "next_by_subj": subjects.EVERYTHING}
    subject = f"{api.PREFIX}.DIRECT.GET.{LOG}"
    try:
        message = await connection.ask(subject, orjson.dumps(wanted), timeout=api.TIMEOUT)
    except NoResponders:
        raise InfrastructureMissing(f"stream {LOG}") from None
    except ConnectionLost as error:
        raise NotConfirmed("a read of the log", api.TIMEOUT) from error
    headers = message.headers or {}
    if "Status" in headers or "Nats-Sequence" not in headers:
        return None
    try:
        stored_at = moment({"at": headers.get("Nats-Time-Stamp", "")}, "at")
        return StoredMessage(int(headers["Nats-Sequence"]), stored_at)
    except (BadField, ValueError):
        return None  # a forged message carries these headers twice


async def _info(
    connection: Connection, call: str, body: dict[str, Any] | None = None
) -> dict[str, Any] | None:
    try:
        return await api.request(connection, call, body)
    except RequestRefused as refusal:
        if refusal.code in _NOT_FOUND:
            return None
        raise


def _duration(nanoseconds: int) -> timedelta:
    return (nanoseconds // 1000) * _MICROSECOND
