"""Reads the whole log in batches, from a position on and without end, for projections."""

from __future__ import annotations

from contextlib import aclosing
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final, Literal

from trellis_jobs.contract.topology import LOG
from trellis_jobs.errors import JobsError
from trellis_jobs.jetstream.client import api, stored_message
from trellis_jobs.jetstream.client.message import read_headers
from trellis_jobs.jetstream.client.pull_consumer import (
    EphemeralConsumer,
    PullEnd,
    open_ephemeral_consumer,
)
from trellis_jobs.jetstream.client.resume_after_disconnect import resume_after_disconnect
from trellis_jobs.jetstream.client.stream_info import next_in_log
from trellis_jobs.model.values import Value
from trellis_jobs.wire.headers import may_be_server_reply

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Mapping

    from trellis_jobs.jetstream.client.connection import Connection
    from trellis_jobs.jetstream.client.delivery_info import DeliveryInfo
    from trellis_jobs.jetstream.client.message import Message
    from trellis_jobs.jetstream.client.pull_consumer import Delivered, PullConsumer

_PULL_SIZE: Final = 8_000
_MIN_PULL_BYTES: Final = 16 * 1024 * 1024
_CONSUMER_IDLE_TIMEOUT: Final = timedelta(minutes=1)


class LogMessage(Value, frozen=True):
    """`stored_ns` is the server's time; `pending` is how many messages followed at delivery.

    `block` is the encoded header block, because few readers need the headers.
    """

    subject: str
    sequence: int
    stored_ns: int
    pending: int
    data: bytes
    block: bytes = b""

    @property
    def headers(self) -> Mapping[str, str]:
        return read_headers(self.block) if self.block else {}

    @property
    def reply_headers(self) -> Mapping[str, str] | None:
        """Returns the headers if some may imitate a server's reply (design D21), else None."""
        return self.headers if may_be_server_reply(self.block) else None

    @property
    def stored_at(self) -> datetime:
        return stored_message.moment_of(self.stored_ns)


@dataclass(frozen=True, slots=True)
class LogExtent:
    """`created` tells this log from an earlier stream of the same name. `now`: by the server."""

    created: str
    messages: int
    last_sequence: int
    now: datetime


@dataclass(frozen=True, slots=True)
class LogPosition:
    """Where a reader stopped, and in which log; `stored_ns` is 0 if unknown."""

    sequence: int = 0
    stored_ns: int = 0
    created: str | None = None


class LogReplaced(JobsError):
    """The log is not the one that was read before: it was recreated, or lost its newest events."""


class LogFeed:
    """Each call of `batches` begins at a position, and resumes after outages."""

    def __init__(self, connection: Connection, *, max_batch: int = 5_000) -> None:
        self._connection = connection
        self._max_batch = max_batch
        # A pull must allow the largest message with its headers, or it would never get past it.
        self._max_pull_bytes = max(_MIN_PULL_BYTES, 2 * connection.max_payload)

    async def extent(self) -> LogExtent:
        """Raises StreamMissing when the log does not exist."""
        info = await api.request(self._connection, f"STREAM.INFO.{LOG}")
        state = info["state"]
        return LogExtent(
            info["created"],
            int(state["messages"]),
            int(state["last_seq"]),
            datetime.fromisoformat(str(info["ts"])),
        )

    async def holds(self, sequence: int) -> bool:
        """Returns whether a message is still in the log; purges and expiry leave gaps."""
        return await stored_message.at_sequence(self._connection, LOG, sequence) is not None

    async def batches(self, after: LogPosition) -> AsyncGenerator[list[LogMessage], None]:
        """Yields the messages after a position, as many as have arrived, at most `max_batch`.

        Raises LogReplaced when the position is not in this log.
        """
        async with aclosing(self._resuming_batches(after)) as batches:
            async for batch in batches:
                if batch:
                    yield batch

    async def up_to(self, after: LogPosition, until: int) -> AsyncGenerator[list[LogMessage], None]:
        """Yields the messages after a position and up to a sequence that the log has reached.

        The last ones may have been purged. That no more messages come does not prove it, because
        the server may stall or the consumer may be on a lagging replica.
        """
        last = after.sequence
        async with aclosing(self._resuming_batches(after)) as batches:
            async for batch in batches:
                consumer = [message for message in batch if message.sequence <= until]
                if consumer:
                    yield consumer
                last = batch[-1].sequence if batch else last
                may_be_at_end = not batch or batch[-1].pending == 0
                if last >= until or (may_be_at_end and await self._ends_between(last, until)):
                    return

    async def _ends_between(self, last: int, until: int) -> bool:
        """Asks the leader whether the log has no message from one sequence to another."""
        following = await next_in_log(self._connection, last)
        return following is None or following.sequence > until

    async def _resuming_batches(self, after: LogPosition) -> AsyncGenerator[list[LogMessage], None]:
        """Yields an empty batch when the log had no more messages at that time."""
        position = after
        reading = resume_after_disconnect(
            self._connection,
            "the log",
            lambda: self._from_one_consumer(position),
            retry_if_missing=lambda: True,
        )
        async with aclosing(reading) as batches:
            async for batch in batches:
                if batch:
                    last = batch[-1]
                    position = LogPosition(last.sequence, last.stored_ns, position.created)
                yield batch

    async def _from_one_consumer(
        self, after: LogPosition
    ) -> AsyncGenerator[list[LogMessage], None]:
        """Reads the message at the position too, to check that it is still the same one."""
        check_log(after, await self.extent())
        consumer = EphemeralConsumer(
            stream=LOG,
            name_prefix="feed",
            start_sequence=after.sequence,
            idle_timeout=_CONSUMER_IDLE_TIMEOUT,
            delete_after_use=True,
        )
        async with open_ephemeral_consumer(self._connection, consumer) as pull:
            if pull.pending == 0:
                yield []
            while True:
                batch = await self._next(pull)
                if not batch or batch[0].sequence != after.sequence:
                    yield batch
                    continue
                previous = batch.pop(0)
                _check_position(after, previous)
                if batch or previous.pending == 0:
                    yield batch

    async def _next(self, pull: PullConsumer) -> list[LogMessage]:
        """Returns the next messages, or an empty list when there are no more for now."""
        batch: list[LogMessage] = []
        while not batch:
            if pull.outstanding <= _PULL_SIZE // 2:
                await pull.request(_PULL_SIZE, wait=True, max_bytes=self._max_pull_bytes)
            if self._add_buffered(await pull.next(), pull, batch) is PullEnd.NOTHING_MORE:
                break
        return batch

    def _add_buffered(
        self, start_sequence: Delivered | PullEnd, pull: PullConsumer, batch: list[LogMessage]
    ) -> Literal[PullEnd.NOTHING_MORE] | None:
        """Add this delivery and those that have arrived already."""
        received: Delivered | PullEnd | None = start_sequence
        while received is not None:
            if received is PullEnd.NOTHING_MORE:
                return received
            if not isinstance(received, PullEnd):
                batch.append(log_message(*received))
            if len(batch) >= self._max_batch:
                break
            received = pull.next_buffered()
        return None


def check_log(after: LogPosition, log: LogExtent) -> None:
    """Raises LogReplaced when the position cannot be in this log."""
    if after.created is not None and after.created != log.created:
        raise LogReplaced(f"the log was created at {log.created}, not at {after.created}")
    if after.sequence > log.last_sequence:
        raise LogReplaced(f"the log ends at {log.last_sequence}, before {after.sequence}")


def _check_position(after: LogPosition, message: LogMessage) -> None:
    if after.stored_ns and message.stored_ns != after.stored_ns:
        raise LogReplaced(f"the log has another message at {after.sequence} than before")


def log_message(message: Message, info: DeliveryInfo) -> LogMessage:
    return LogMessage(
        message.subject,
        info.stream_sequence,
        info.stored_ns,
        info.pending,
        message.data,
        message.block,
    )
