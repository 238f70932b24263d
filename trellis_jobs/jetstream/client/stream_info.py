"""Size and backlog of the streams, as the server reports them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from trellis_jobs.contract.topology import ADVISORIES, ADVISORY_CONSUMER, LOG
from trellis_jobs.jetstream.client import api, stored_message
from trellis_jobs.jetstream.client.replication import read_replication
from trellis_jobs.model import subjects
from trellis_jobs.model.durations import format_duration
from trellis_jobs.model.usage import limited

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from trellis_jobs.jetstream.client.connection import Connection
    from trellis_jobs.jetstream.client.replication import Replication
    from trellis_jobs.jetstream.client.stored_message import StoredMessage
    from trellis_jobs.model.usage import Usage


@dataclass(frozen=True, slots=True)
class StreamSize:
    name: str
    messages: int
    bytes: int
    first_sequence: int
    last_sequence: int
    consumers: int
    replication: Replication
    usages: list[Usage]
    dropping: list[DroppingLimit]


@dataclass(frozen=True, slots=True)
class DroppingLimit:
    """A limit that makes a stream delete its oldest messages.

    `remedy` are the options of `nats stream edit` that stop it.
    """

    setting: str
    value: int
    remedy: str

    def __str__(self) -> str:
        if self.setting == "max_age":
            return f"{self.setting} {format_duration(timedelta(microseconds=self.value // 1000))}"
        return f"{self.setting} {self.value:,}"


@dataclass(frozen=True, slots=True)
class AdvisoryBacklog:
    count: int
    oldest_at: datetime | None


async def stream_size(connection: Connection, name: str) -> StreamSize | None:
    """Returns None when the stream does not exist."""
    info = await api.find(connection, f"STREAM.INFO.{name}")
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
        read_replication(info),
        of_stream(info),
        dropping_limits(info["config"]),
    )


def of_stream(info: Mapping[str, Any]) -> list[Usage]:
    """Only streams that refuse messages when full: with `discard: old` they drop the oldest."""
    config, state = info["config"], info["state"]
    if config.get("discard") != "new":
        return []
    name = config["name"]
    return limited(
        {
            f"bytes of stream {name}": (state["bytes"], config.get("max_bytes")),
            f"messages of stream {name}": (state["messages"], config.get("max_msgs")),
        }
    )


def dropping_limits(config: Mapping[str, Any]) -> list[DroppingLimit]:
    """A stream with `discard: new` refuses new messages when full, but still deletes by age."""
    refuses = config.get("discard") == "new"
    refuses_per_subject = refuses and bool(config.get("discard_new_per_subject"))
    found = {
        "max_age": ("--max-age=0s", False),
        "max_bytes": ("--discard=new", refuses),
        "max_msgs": ("--discard=new", refuses),
        "max_msgs_per_subject": ("--max-msgs-per-subject=-1", refuses_per_subject),
    }
    return [
        DroppingLimit(setting, int(config[setting]), remedy)
        for setting, (remedy, is_refusing) in found.items()
        if int(config.get(setting) or 0) > 0 and not is_refusing
    ]


async def advisory_backlog(connection: Connection) -> AdvisoryBacklog | None:
    """Returns the unprocessed advisories, or None when no consumer of them was ever created."""
    consumer = await api.find(connection, f"CONSUMER.INFO.{ADVISORIES}.{ADVISORY_CONSUMER}")
    if consumer is None:
        return None
    count = int(consumer["num_pending"]) + int(consumer["num_ack_pending"])
    if count == 0:
        return AdvisoryBacklog(0, None)
    acknowledged = int(consumer["ack_floor"]["stream_seq"])
    oldest = await stored_message.next_from(connection, ADVISORIES, ">", acknowledged + 1)
    return AdvisoryBacklog(count, oldest.stored_at if oldest else None)


async def next_in_log(connection: Connection, after: int) -> StoredMessage | None:
    """Returns the first message of the log after a sequence, or None at the end."""
    return await stored_message.next_from(connection, LOG, subjects.ALL_EVENTS, after + 1)
