"""The alarms of a service whose time has come. Its worker processes share them."""

from __future__ import annotations

import logging
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from trellis_jobs.contract.topology import DUE_CONSUMER, alarms_stream, due_consumer
from trellis_jobs.jetstream.client.connection import ConnectionLost
from trellis_jobs.jetstream.client.pull_consumer import PullEnd, open_pull_consumer
from trellis_jobs.jetstream.client.stored_message import moment_of
from trellis_jobs.jetstream.work.consumer_setup import ensure_consumer
from trellis_jobs.jetstream.work.delivery import answer_bytes
from trellis_jobs.jetstream.work.lease_keeper import IN_PROGRESS
from trellis_jobs.model import subjects
from trellis_jobs.model.alarms import LEAD
from trellis_jobs.model.settlement import Nak, Term
from trellis_jobs.wire import headers as h

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
    from datetime import timedelta

    from trellis_jobs.jetstream.client.connection import Connection
    from trellis_jobs.jetstream.client.pull_consumer import Delivered, PullConsumer
    from trellis_jobs.model.settlement import Answer
    from trellis_jobs.model.subjects import AlarmAddress

log = logging.getLogger(__name__)


class DueAlarm:
    """One delivery of an alarm. `deliveries` counts the deliveries so far, with this one.

    `set_at` is when a process set it; if that is not known, when it came. `at` is the time for
    which it was set. `stored_at` is the server's time when it came.
    """

    __slots__ = (
        "_connection",
        "_reply",
        "address",
        "at",
        "deliveries",
        "sequence",
        "set_at",
        "stored_at",
    )

    def __init__(
        self, connection: Connection, reply: str, address: AlarmAddress, delivered: Delivered
    ) -> None:
        message, info = delivered
        self._connection = connection
        self._reply = reply
        self.address = address
        self.stored_at = moment_of(info.stored_ns)
        set_at = _moment(message.headers, h.ALARM_SET_AT)
        self.set_at = self.stored_at if set_at is None else min(set_at, self.stored_at)
        self.at = _moment(message.headers, h.ALARM_AT) or self.stored_at + LEAD
        self.deliveries = info.number
        self.sequence = info.stream_sequence

    def age(self, now: datetime) -> timedelta:
        return now - self.set_at

    async def renew(self) -> None:
        """Keeps the alarm for another lease. If that fails, another process gets it, too."""
        with suppress(ConnectionLost):
            await self._connection.publish(self._reply, IN_PROGRESS)

    async def answer(self, answer: Answer) -> None:
        """A lost acknowledgement only causes one more delivery."""
        data = answer_bytes(answer)
        if data is None or self._connection.publish_nowait(self._reply, data):
            return
        try:
            await self._connection.publish(self._reply, data)
        except ConnectionLost as error:
            log.info("the alarm of %s is delivered again: %s", self.address.name, error)


class DueAlarms:
    def __init__(self, connection: Connection, service: str) -> None:
        self._connection = connection
        self._service = service

    async def open(self) -> None:
        """Makes sure that the consumer exists. Raises StreamMissing and NotPermitted."""
        stream = alarms_stream(self._service)
        await ensure_consumer(self._connection, due_consumer(self._service), stream)

    async def each(
        self, free_slots: Callable[[], Awaitable[int]]
    ) -> AsyncGenerator[DueAlarm, None]:
        """Yields alarms without end, as many as there are free slots; raises PullBroken.

        When it ends, it hands back the alarms that have arrived and were not yielded.
        """
        stream = alarms_stream(self._service)
        pull = open_pull_consumer(self._connection, stream, DUE_CONSUMER, drains=True)
        consumer: PullConsumer | None = None
        try:
            async with pull as consumer:
                while True:
                    if consumer.outstanding == 0:
                        await consumer.request(await free_slots(), wait=True)
                    received = await consumer.next()
                    if not isinstance(received, PullEnd):
                        alarm = await self._read(received)
                        if alarm is not None:
                            yield alarm
        finally:
            if consumer is not None:
                self._hand_back(consumer)

    async def _read(self, delivered: Delivered) -> DueAlarm | None:
        message, _ = delivered
        address = subjects.due_address(message.subject)
        if address is not None and address.service == self._service:
            return DueAlarm(self._connection, message.reply, address, delivered)
        log.warning("dropped a message on %s, which is not an alarm", message.subject)
        refusal = answer_bytes(Term("not an alarm"))
        if refusal is not None:
            await self._connection.publish(message.reply, refusal)
        return None

    def _hand_back(self, consumer: PullConsumer) -> None:
        """Another process gets them at once, and not when their lease is over."""
        refusal = answer_bytes(Nak())
        while (received := consumer.next_buffered()) is not None:
            if not isinstance(received, PullEnd) and refusal is not None:
                self._connection.publish_nowait(received[0].reply, refusal)


def _moment(headers: Mapping[str, str], name: str) -> datetime | None:
    """Any client of the service can write these headers, so they may have any text."""
    with suppress(ValueError, OverflowError):
        moment = datetime.fromisoformat(headers.get(name, ""))
        return None if moment.tzinfo is None else moment.astimezone(UTC)
    return None
