"""Consumers of the log and of the work queue that do not belong to the installation itself.

A service may read its own jobs through consumers with any name, and may not delete them. So it can
leave many behind, or create push consumers: an operator must see both.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from trellis_jobs.contract.topology import LOG, TO_WORK, WORK
from trellis_jobs.errors import RequestRefused, StreamMissing
from trellis_jobs.jetstream.client import api
from trellis_jobs.jetstream.client.stored_message import nanoseconds_of
from trellis_jobs.model import subjects

if TYPE_CHECKING:
    from collections.abc import Iterable

    from trellis_jobs.jetstream.client.connection import Connection

_STREAMS: Final = (LOG, WORK)
ALL_SERVICES: Final = "all services"
_ACTIVITY_FIELDS: Final = ("delivered", "ack_floor")


@dataclass(frozen=True, slots=True)
class Reader:
    """`service`: whose jobs it reads. `deliver_subject` is None for a pull consumer.

    `unused_for`: the time since it was created or last delivered a message; zero while a client
    is subscribed or waits for messages.
    """

    stream: str
    name: str
    service: str
    deliver_subject: str | None = None
    is_durable: bool = False
    unused_for: timedelta = timedelta()

    @property
    def path(self) -> str:
        return f"{self.stream}/{self.name}"


async def list_readers(connection: Connection) -> list[Reader]:
    """Returns all consumers except `to-work` and those of queues."""
    found = []
    for stream in _STREAMS:
        try:
            listed = await api.consumers(connection, stream)
        except StreamMissing:
            continue
        found += [_read(stream, info) for info in listed if info["name"] != TO_WORK]
    return [each for each in found if each.stream == LOG or each.deliver_subject is not None]


def push_consumers(readers: Iterable[Reader]) -> list[Reader]:
    """Returns the push consumers; neither this library nor its commands create any."""
    return [each for each in readers if each.deliver_subject is not None]


def count_by_service(readers: Iterable[Reader]) -> Counter[str]:
    """Counts the readers of the log of each service."""
    return Counter(each.service for each in readers if each.stream == LOG)


def _read(stream: str, info: dict[str, Any]) -> Reader:
    config = info["config"]
    filters = config.get("filter_subjects") or [config.get("filter_subject") or ""]
    return Reader(
        stream,
        info["name"],
        subjects.service_of(filters[0]) or ALL_SERVICES,
        config.get("deliver_subject"),
        is_durable=bool(config.get("durable_name")),
        unused_for=_unused_for(info),
    )


def _unused_for(info: dict[str, Any]) -> timedelta:
    """Measured by the server's clock."""
    if info.get("push_bound") or info.get("num_waiting"):
        return timedelta()
    used = [info["created"], *(info.get(each, {}).get("last_active") for each in _ACTIVITY_FIELDS)]
    last = max(nanoseconds_of(each) for each in used if each)
    return timedelta(microseconds=max(0, nanoseconds_of(info["ts"]) - last) // 1000)


async def delete_reader(connection: Connection, reader: Reader) -> None:
    """Delete a reader; it is no error if it is gone already."""
    try:
        await api.request(connection, f"CONSUMER.DELETE.{reader.stream}.{reader.name}")
    except RequestRefused as refusal:
        if refusal.code != api.CONSUMER_NOT_FOUND:
            raise
