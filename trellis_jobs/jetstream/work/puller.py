"""Pulls the work messages of one queue, as many as the worker has free slots for."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from trellis_jobs.contract.consumer_metadata import CONTRACT
from trellis_jobs.contract.topology import WORK, queue_consumer
from trellis_jobs.jetstream.client import api
from trellis_jobs.jetstream.client.pull_consumer import read_undelivered
from trellis_jobs.jetstream.work.consumer_setup import ensure_consumer
from trellis_jobs.jetstream.work.delivery import (
    AckChannel,
    Delivery,
    NakSender,
    answer_bytes,
    read_delivery,
)
from trellis_jobs.model.settlement import Term

if TYPE_CHECKING:
    from collections.abc import Callable

    from trellis_jobs.contract.declaration import JobType
    from trellis_jobs.jetstream.client.connection import Connection
    from trellis_jobs.jetstream.client.core_client import Subscription
    from trellis_jobs.jetstream.client.message import Message

log = logging.getLogger(__name__)

PULL_SECONDS: Final = 5.0
PULL_GRACE_SECONDS: Final = 2.0
_GONE_DESCRIPTIONS: Final = frozenset({"Consumer Deleted", "Stream Deleted"})


@dataclass(slots=True)
class _Pull:
    """One pull request, and how many of its deliveries may still come by the client's count."""

    outstanding: int
    deadline: float


class WorkPuller:
    """Requests exactly as many deliveries as the worker has free slots.

    `receive` gets each delivery, and None when a pull ended or no delivery is outstanding.
    `is_gone`: the consumer or its stream was deleted; `open` creates the consumer again.
    `naks` sends the delayed NAKs of the deliveries; without it they are sent at once.
    """

    def __init__(
        self,
        connection: Connection,
        service: str,
        queue: JobType[Any, Any],
        receive: Callable[[Delivery | None], None],
        monotonic: Callable[[], float],
        naks: NakSender | None = None,
    ) -> None:
        self.ack_wait = queue.ack_wait
        self._channel = AckChannel(connection, monotonic, naks)
        self._lease_seconds = queue.ack_wait.total_seconds()
        self.malformed = 0
        self.outstanding = 0
        self.is_gone = False
        self._connection = connection
        self._receive = receive
        self._config = queue_consumer(service, queue)
        self._next = connection.api(f"CONSUMER.MSG.NEXT.{WORK}.{self._config['name']}")
        self._inbox = connection.new_inbox()
        self._subscription: Subscription | None = None
        self._pulls: dict[str, _Pull] = {}
        self._last_token = 0
        self._loop = asyncio.get_running_loop()

    async def open(self) -> None:
        """Ensure that the consumer exists, and use the ack_wait that the server reports."""
        effective = await ensure_consumer(self._connection, self._config)
        self.is_gone = False
        self.ack_wait = timedelta(microseconds=effective["ack_wait"] / 1000)
        self._lease_seconds = self.ack_wait.total_seconds()

    @property
    def contract(self) -> str:
        """The contract of this worker's queue, as the consumer's metadata should have it."""
        return str(self._config["metadata"][CONTRACT])

    async def recorded_contract(self) -> str | None:
        """Returns the contract in the consumer's metadata, from the worker that started last."""
        call = f"CONSUMER.INFO.{WORK}.{self._config['name']}"
        info = await api.request(self._connection, call)
        recorded: str | None = (info["config"].get("metadata") or {}).get(CONTRACT)
        return recorded

    @property
    def is_subscribed(self) -> bool:
        return self._subscription is not None

    async def subscribe(self) -> None:
        if self._subscription is None:
            subject = f"{self._inbox}.*"
            self._subscription = await self._connection.subscribe(subject, self._on_message)

    async def unsubscribe(self) -> None:
        """Stop receiving: without a subscriber the server drops the pull requests.

        Deliveries in flight are still received, and can be returned.
        """
        subscription, self._subscription = self._subscription, None
        if subscription is not None:
            await self._connection.drain(subscription)
            self.forget_pulls()

    def request(self, count: int, *, wait: bool = True) -> None:
        """Request `count` deliveries, unless the outbound buffer is full.

        Without `wait` the server delivers what it has, and ends the pull at once.
        """
        self._last_token += 1
        token = str(self._last_token)
        if wait:
            body = b'{"batch":%d,"expires":%d}' % (count, int(PULL_SECONDS * 1e9))
            seconds = PULL_SECONDS
        else:
            body, seconds = b'{"batch":%d,"no_wait":true}' % count, 0.0
        if self._connection.publish_nowait(self._next, body, reply=f"{self._inbox}.{token}"):
            deadline = self._loop.time() + seconds + PULL_GRACE_SECONDS
            self._pulls[token] = _Pull(count, deadline)
            self.outstanding += count

    async def backlog(self) -> int:
        """Returns how many messages were never delivered."""
        info = await api.request(self._connection, f"CONSUMER.INFO.{WORK}.{self._config['name']}")
        return int(info["num_pending"])

    def forget_pulls(self) -> None:
        """Call this after a reconnect: the server has dropped the pulls of the old connection."""
        self._pulls.clear()
        self.outstanding = 0

    def forget_overdue_pulls(self) -> None:
        """Forget pulls that neither delivered nor ended in time: they got lost."""
        now = self._loop.time()
        for token in [token for token, pull in self._pulls.items() if pull.deadline <= now]:
            self._end_pull(token)

    def _on_message(self, message: Message) -> None:
        if message.status is not None:
            self._end_pull(message.subject.rsplit(".", 1)[-1], read_undelivered(message.headers))
            self.is_gone = self.is_gone or _is_gone_status(message)
            if not _is_too_many_pulls(message):
                self._receive(None)
            return
        self._count_received(1)
        delivery = read_delivery(self._channel, message, self._lease_seconds)
        if isinstance(delivery, Delivery):
            self._receive(delivery)
        else:
            self._reject(message, delivery)
        if self.outstanding == 0:
            self._receive(None)

    def _end_pull(self, token: str, undelivered: int | None = None) -> None:
        """The server's count of undelivered messages wins over the client's own count."""
        pull = self._pulls.pop(token, None)
        expected = 0 if pull is None else pull.outstanding
        self.outstanding -= expected
        if undelivered is not None:
            self._count_received(undelivered - expected)

    def _count_received(self, count: int) -> None:
        """A delivery does not name its pull, so it is counted for the oldest one."""
        while count and self._pulls:
            token, pull = next(iter(self._pulls.items()))
            received = min(count, pull.outstanding)
            pull.outstanding -= received
            self.outstanding -= received
            count -= received
            if pull.outstanding == 0:
                del self._pulls[token]

    def _reject(self, message: Message, reason: str) -> None:
        self.malformed += 1
        log.warning(
            "dropped an invalid work message on %s: %s",
            message.subject,
            reason,
            extra={"subject": message.subject, "reason": reason, "count": self.malformed},
        )
        answer = answer_bytes(Term(reason))
        if answer is not None and message.reply:
            # If this cannot be sent, the message is redelivered and dropped then.
            self._connection.publish_nowait(message.reply, answer)


def _is_gone_status(message: Message) -> bool:
    """503 means that the consumer or its stream does not exist, or has no leader."""
    return message.status == "503" or message.headers.get("Description") in _GONE_DESCRIPTIONS


def _is_too_many_pulls(message: Message) -> bool:
    """The consumer has 512 waiting pulls; an immediate retry would be refused again."""
    return message.headers.get("Description", "").startswith("Exceeded MaxWaiting")
