"""The queues that the server knows: their consumers, with what is in force and what they carry."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from trellis_jobs.contract.consumer_metadata import keys_bucket, read_note, told_entry
from trellis_jobs.contract.topology import WORK, Config, queue_consumer
from trellis_jobs.errors import InfrastructureMissing, RequestRefused, ServerTooOld
from trellis_jobs.jetstream.client import api, stored_message
from trellis_jobs.jetstream.work.consumer_info import (
    PAUSE_REASON,
    PAUSED_BY,
    QueueConsumer,
    QueueConsumers,
)
from trellis_jobs.jetstream.work.consumer_setup import incompatible_settings, outdated_settings
from trellis_jobs.model import subjects

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trellis_jobs.contract.declaration import JobType
    from trellis_jobs.contract.features import Features
    from trellis_jobs.jetstream.client.connection import Connection

# How far ahead a pause ends that is to end now: longer than a request takes.
_RESUME_DELAYS: Final = tuple(timedelta(milliseconds=ms) for ms in (50, 250, 1000))


@dataclass(frozen=True, slots=True)
class ServerQueue:
    service: str
    job_type: str
    consumer: QueueConsumer

    @property
    def config(self) -> Config:
        return self.consumer.config

    @property
    def name(self) -> str:
        return f"{self.service}/{self.job_type}"

    def contract(self) -> JobType[Any, Any] | None:
        """As its service has told it; raises DeclarationError where it cannot be read."""
        return read_note(self._metadata, self.service, self.job_type)

    @property
    def keys_bucket(self) -> str | None:
        """Where it keeps its keys; None where its consumer does not say."""
        return keys_bucket(self._metadata)

    def manifest_entry(self) -> dict[str, Any] | None:
        """Its part of a manifest; raises DeclarationError where it cannot be read."""
        return told_entry(self._metadata, self.service, self.job_type)

    def settings_drift(self, declared: JobType[Any, Any], *, from_code: bool) -> list[str]:
        """`from_code`: declared in code, so that what the server was told may be another."""
        desired = queue_consumer(self.service, declared)
        if not from_code:
            del desired["metadata"]
        return incompatible_settings(desired, self.config) + outdated_settings(desired, self.config)

    @property
    def _metadata(self) -> Mapping[str, str]:
        return self.config.get("metadata") or {}


async def list_queues(connection: Connection) -> list[ServerQueue]:
    """All of them, by name; what else consumes the work queue is left out."""
    try:
        consumers = await QueueConsumers(connection).all()
    except RequestRefused as refusal:
        if refusal.code == api.STREAM_NOT_FOUND:
            raise InfrastructureMissing(f"stream {WORK}") from refusal
        raise
    found = [queue for queue in map(_read, consumers) if queue is not None]
    return sorted(found, key=lambda queue: (queue.service, queue.job_type))


async def find_queue(connection: Connection, service: str, job_type: str) -> ServerQueue | None:
    """None when no worker of the queue was ever started."""
    consumer = await QueueConsumers(connection).of(service, job_type)
    queue = None if consumer is None else _read(consumer)
    # a-b/c and a/b-c would have the same consumer.
    return queue if queue and (queue.service, queue.job_type) == (service, job_type) else None


async def oldest_pending(connection: Connection, queue: ServerQueue) -> datetime | None:
    """When the first that nobody has been given yet came into the work queue."""
    if queue.consumer.pending == 0:
        return None
    work = subjects.work_of_type(queue.service, queue.job_type)
    first = await stored_message.next_from(connection, WORK, work, queue.consumer.delivered + 1)
    return first.stored_at if first else None


async def pause(
    connection: Connection, features: Features, queue: ServerQueue, until: datetime
) -> None:
    """No worker gets anything new until then; what runs goes on, and what is created waits."""
    if not features.consumer_pause:
        raise ServerTooOld("pausing a queue", "2.11", features.version)
    await api.request(connection, _pause_call(queue), {"pause_until": until.isoformat()})


async def resume(connection: Connection, features: Features, queue: ServerQueue) -> None:
    """Ends a pause a moment from now, by the server's clock.

    A pause that is taken away leaves pulls that wait asleep until they expire; one that comes to
    its end wakes them. If the end had passed before the request was handled, the moment is longer
    the next time.
    """
    if not features.consumer_pause:
        raise ServerTooOld("pausing a queue", "2.11", features.version)
    if not queue.consumer.is_paused:
        return
    for delay in _RESUME_DELAYS:
        info = await api.request(connection, f"CONSUMER.INFO.{WORK}.{queue.config['name']}")
        until = datetime.fromisoformat(str(info["ts"])) + delay
        body = {"pause_until": until.isoformat()}
        if (await api.request(connection, _pause_call(queue), body)).get("paused"):
            return


async def note_pause(connection: Connection, queue: ServerQueue, reason: str, by: str) -> None:
    """Kept with the consumer, for whoever asks why nothing runs."""
    metadata = {**(queue.config.get("metadata") or {}), PAUSE_REASON: reason, PAUSED_BY: by}
    name, filtered = queue.config["name"], queue.config["filter_subject"]
    body = {
        "stream_name": WORK,
        "action": "update",
        "config": {**queue.config, "metadata": metadata},
    }
    await api.request(connection, f"CONSUMER.CREATE.{WORK}.{name}.{filtered}", body)


def _pause_call(queue: ServerQueue) -> str:
    return f"CONSUMER.PAUSE.{WORK}.{queue.config['name']}"


def _read(consumer: QueueConsumer) -> ServerQueue | None:
    of = subjects.queue_of(consumer.subject)
    return None if of is None else ServerQueue(*of, consumer)
