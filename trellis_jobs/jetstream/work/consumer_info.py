"""The consumers of the work queue as the server reports them, for operators of queues."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from trellis_jobs.contract.topology import WORK, Config, consumer_name
from trellis_jobs.errors import NotPermitted, StreamMissing
from trellis_jobs.jetstream.client import api
from trellis_jobs.jetstream.client.stored_message import moment_of, nanoseconds_of
from trellis_jobs.model import subjects

if TYPE_CHECKING:
    from datetime import datetime

    from trellis_jobs.jetstream.client.connection import Connection

# In the consumer's metadata: why it is paused, and who paused it.
PAUSE_REASON: Final = "trellis.paused.reason"
PAUSED_BY: Final = "trellis.paused.by"
# The server knows no pause without an end, so such a pause lasts a hundred years.
ENDLESS_PAUSE: Final = timedelta(days=36_500)


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueConsumer:
    """`delivered` is the newest message that was ever delivered, `pending` how many never were.

    `at` is the server's time of the report. `ack_pending` counts unacknowledged deliveries, and
    `waiting_pulls` the pull requests that wait for work, so workers with free slots. `config` are
    all settings as the server has them. `pause_remaining` is None if the consumer is not paused,
    and for a pause that lasts until an operator resumes the queue.
    """

    name: str
    at: datetime
    subject: str
    ack_wait: timedelta
    delivery_limit: int | None
    delivered: int
    pending: int
    ack_pending: int
    waiting_pulls: int
    is_paused: bool
    pause_remaining: timedelta | None
    config: Config = field(default_factory=dict, repr=False)

    @property
    def has_no_worker(self) -> bool:
        """Work is pending, and no worker pulls it or has a delivery of it.

        False while the consumer is paused, because no worker gets work then.
        """
        return self.pending > 0 and not (self.ack_pending or self.waiting_pulls or self.is_paused)

    @property
    def paused_because(self) -> str | None:
        return self._metadata(PAUSE_REASON)

    @property
    def paused_by(self) -> str | None:
        return self._metadata(PAUSED_BY)

    def _metadata(self, key: str) -> str | None:
        metadata = self.config.get("metadata") or {}
        return (metadata.get(key) or None) if self.is_paused else None


class QueueConsumers:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def of(self, service: str, job_type: str) -> QueueConsumer | None:
        """Returns None when no worker of the queue was ever started."""
        found = await self.named(consumer_name(service, job_type))
        return found or await self._find_by_subject(service, job_type)

    async def named(self, name: str) -> QueueConsumer | None:
        info = await api.find(self._connection, f"CONSUMER.INFO.{WORK}.{name}")
        return None if info is None else _read(info)

    async def _find_by_subject(self, service: str, job_type: str) -> QueueConsumer | None:
        """A deployment may have chosen another name, so look for the filter subject.

        Without permission to list consumers, only those with the default names are found.
        """
        work = subjects.work_of_type(service, job_type)
        try:
            return next((each for each in await self.all() if each.subject == work), None)
        except (NotPermitted, StreamMissing):
            return None

    async def all(self) -> list[QueueConsumer]:
        """Returns the consumers of all queues, including those of other runtimes."""
        return [_read(each) for each in await api.consumers(self._connection, WORK)]

    async def with_delivery_limit(self) -> list[QueueConsumer]:
        """Returns the consumers with a maximum number of deliveries per message."""
        return [each for each in await self.all() if each.delivery_limit is not None]


def _read(info: dict[str, Any]) -> QueueConsumer:
    config: dict[str, Any] = info["config"]
    limit = int(config.get("max_deliver", -1))
    return QueueConsumer(
        name=info["name"],
        at=moment_of(nanoseconds_of(info["ts"])),
        subject=config.get("filter_subject") or subjects.ALL_WORK,
        ack_wait=_duration(config.get("ack_wait", 0)),
        delivery_limit=limit if limit > 0 else None,
        delivered=int(info["delivered"]["stream_seq"]),
        pending=int(info.get("num_pending", 0)),
        ack_pending=int(info.get("num_ack_pending", 0)),
        waiting_pulls=int(info.get("num_waiting", 0)),
        is_paused=bool(info.get("paused")),
        pause_remaining=_pause_remaining(info.get("pause_remaining")),
        config=config,
    )


def _pause_remaining(nanoseconds: int | None) -> timedelta | None:
    remaining = None if nanoseconds is None else _duration(nanoseconds)
    return None if remaining is None or remaining > ENDLESS_PAUSE / 2 else remaining


def _duration(nanoseconds: int) -> timedelta:
    return timedelta(microseconds=nanoseconds // 1000)
