"""The queues that exist on the server: their consumers, settings and contracts."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from trellis_jobs.contract.consumer_metadata import keys_bucket, manifest_entry, read_contract
from trellis_jobs.contract.topology import WORK, Config, queue_consumer
from trellis_jobs.errors import ServerTooOld
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

# To resume, a pause is set to end this far ahead: longer than a request takes.
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
        """The contract that its service recorded; raises DeclarationError if it is unreadable."""
        return read_contract(self._metadata, self.service, self.job_type)

    @property
    def keys_bucket(self) -> str | None:
        """Where it keeps its keys; None where its consumer does not say."""
        return keys_bucket(self._metadata)

    def manifest_entry(self) -> dict[str, Any] | None:
        """Its part of a manifest; raises DeclarationError if it is unreadable."""
        return manifest_entry(self._metadata, self.service, self.job_type)

    def settings_drift(self, declared: JobType[Any, Any], *, from_code: bool) -> list[str]:
        """`from_code`: `declared` comes from code, so the recorded contract may differ too."""
        desired = queue_consumer(self.service, declared)
        if not from_code:
            del desired["metadata"]
        return incompatible_settings(desired, self.config) + outdated_settings(desired, self.config)

    @property
    def _metadata(self) -> Mapping[str, str]:
        return self.config.get("metadata") or {}


async def list_queues(connection: Connection) -> list[ServerQueue]:
    """Returns all queues by name, without other consumers of the work queue."""
    consumers = await QueueConsumers(connection).all()
    found = [queue for queue in map(_read, consumers) if queue is not None]
    return sorted(found, key=lambda queue: (queue.service, queue.job_type))


async def find_queue(connection: Connection, service: str, job_type: str) -> ServerQueue | None:
    """Returns None when no worker of the queue was ever started."""
    consumer = await QueueConsumers(connection).of(service, job_type)
    queue = None if consumer is None else _read(consumer)
    # The queues a-b/c and a/b-c would have the same consumer name.
    return queue if queue and (queue.service, queue.job_type) == (service, job_type) else None


async def oldest_pending(connection: Connection, queue: ServerQueue) -> datetime | None:
    """Returns when the oldest message that was never delivered was stored."""
    if queue.consumer.pending == 0:
        return None
    work = subjects.work_of_type(queue.service, queue.job_type)
    first = await stored_message.next_from(connection, WORK, work, queue.consumer.delivered + 1)
    return first.stored_at if first else None


async def pause(
    connection: Connection, features: Features, queue: ServerQueue, until: datetime
) -> None:
    """Stop new deliveries until then; running jobs continue, and new jobs wait."""
    if not features.consumer_pause:
        raise ServerTooOld("pausing a queue", "2.11", features.version)
    await api.request(connection, _pause_call(queue), {"pause_until": until.isoformat()})


async def resume(connection: Connection, features: Features, queue: ServerQueue) -> None:
    """Let the pause end a moment from now, by the server's clock.

    If a pause is removed, the server does not wake waiting pulls until they expire; when a pause
    reaches its end, it does. If the end had passed before the server handled the request, the next
    attempt uses a longer delay.
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
    """Record reason and author in the consumer's metadata, for operators."""
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
