"""Publishes many messages in fast batches, with one reply per batch: first events, and alarms.

In a fast batch (NATS 2.14) the server stores each message as if it came alone, in order and with
its own guard, but sends one reply for all. The reply subject of each tells the server about the
batch:

    <inbox>.<batch>.<interval of progress replies>.fail.<position>.<operation>.$FI

`fail`: after a message that was refused or got lost, the server stores no further one of the batch.
Whatever the reply is, and without one, each message can be sent again alone, because it has its own
guard.
"""

from __future__ import annotations

import asyncio
import secrets
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

import orjson

from trellis_jobs.errors import JobsError, NotConfirmed
from trellis_jobs.errors.connection import NotAppended
from trellis_jobs.jetstream.client.connection import Connection, ConnectionLost, NoResponders
from trellis_jobs.jetstream.client.pub_ack import Refused, read_pub_ack
from trellis_jobs.jetstream.client.timeouts import ACK_TIMEOUT

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence

    from trellis_jobs.contract.features import Features
    from trellis_jobs.jetstream.client.message import Message
    from trellis_jobs.jetstream.client.prepared_message import PreparedMessage
    from trellis_jobs.model.alarms import EventWindow

    AppendResult = int | Refused | JobsError

M = TypeVar("M", bound="PreparedMessage")

# Limits of one call: enough batches in flight to keep the server busy, and little to repeat.
_MAX_BATCHES_IN_FLIGHT: Final = 4
_MAX_MESSAGES_PER_BATCH: Final = 128
_MAX_BYTES_PER_BATCH: Final = 1 << 18
_MAX_SINGLES_IN_FLIGHT: Final = _MAX_BATCHES_IN_FLIGHT * _MAX_MESSAGES_PER_BATCH

# A fast batch does not return sequences. 1 means "at least 1": a read that finds no message is
# stale.
_UNKNOWN_SEQUENCE: Final = 1
_FIRST, _NEXT, _LAST = 0, 1, 2
_FAST_BATCHES_NOT_ALLOWED: Final = 10205
# After this time the stream may allow fast batches, or have another leader.
_FAST_BATCH_COOLDOWN: Final = 60.0


@dataclass(frozen=True, slots=True)
class FastBatch(Generic[M]):
    """One message, which is sent alone, or several, which are sent as a fast batch."""

    parts: tuple[M, ...]

    @property
    def is_batch(self) -> bool:
        return len(self.parts) > 1

    def send(self, connection: Connection) -> Awaitable[Message]:
        """Returns an awaitable for the reply."""
        if not self.is_batch:
            return self.parts[0].send(connection, ACK_TIMEOUT)
        batch, subjects = secrets.token_hex(8), (part.subject for part in self.parts)
        result = connection.expect_reply(batch, subjects, ACK_TIMEOUT, is_final_ack)
        try:
            for reply, part in zip(self._replies(batch), self.parts, strict=True):
                self._send(connection, part, connection.reply_to(reply))
        except (JobsError, ConnectionLost):
            result.cancel()
            raise
        return result

    def _replies(self, batch: str) -> Iterator[str]:
        size = len(self.parts)
        for position in range(1, size + 1):
            operation = _FIRST if position == 1 else _LAST if position == size else _NEXT
            yield f"{batch}.{size}.fail.{position}.{operation}.$FI"

    def _send(self, connection: Connection, part: PreparedMessage, reply: str) -> None:
        if not connection.publish_nowait(part.subject, part.data, reply=reply, block=part.block):
            raise ConnectionLost("only a part of a batch was sent")


class BulkAppender(Generic[M]):
    """Publishes many messages of one stream without waiting for each reply.

    `publish_with_retry` publishes one message alone, with a timeout and the time when it began.
    """

    def __init__(
        self,
        connection: Connection,
        features: Features,
        publish_with_retry: Callable[[M, float, float], Awaitable[int | Refused]],
    ) -> None:
        self._connection = connection
        self._features = features
        self._publish_with_retry = publish_with_retry
        self._now = asyncio.get_running_loop().time
        self._no_batches_until = 0.0

    async def append(
        self, messages: Iterable[M], timeout: float, window: EventWindow | None = None
    ) -> list[AppendResult]:
        """Returns for each message its sequence, or a lower bound, in the given order.

        Nothing is sent after the end of the window.
        """
        use_batches = self._features.fast_batches and self._now() >= self._no_batches_until
        call = _Call(timeout, self._now(), use_batches, window)
        results: list[AppendResult] = []
        in_flight: deque[tuple[FastBatch[M], Awaitable[Message] | None]] = deque()
        for batch in self._batches_of(messages, call):
            if len(in_flight) >= (
                _MAX_BATCHES_IN_FLIGHT if batch.is_batch else _MAX_SINGLES_IN_FLIGHT
            ):
                results += await self._results_of(*in_flight.popleft(), call)
            in_flight.append((batch, self._send(batch, call)))
            if batch.is_batch:
                # Write it now, so that the server works on it while the next one is encoded.
                await asyncio.sleep(0)
        for pending in in_flight:
            results += await self._results_of(*pending, call)
        return results

    def _batches_of(self, messages: Iterable[M], call: _Call) -> Iterator[FastBatch[M]]:
        max_bytes = min(_MAX_BYTES_PER_BATCH, self._connection.max_payload)
        parts: list[M] = []
        size = 0
        for message in messages:
            is_full = len(parts) == _MAX_MESSAGES_PER_BATCH or size + message.size > max_bytes
            if parts and (is_full or not call.use_batches):
                yield FastBatch(tuple(parts))
                parts, size = [], 0
            parts.append(message)
            size += message.size
        if parts:
            yield FastBatch(tuple(parts))

    def _send(self, batch: FastBatch[M], call: _Call) -> Awaitable[Message] | None:
        """Returns an awaitable for the reply, or None if the messages must be sent alone."""
        is_too_late = call.window is not None and call.window.is_over
        if is_too_late or not self._features.guarded_appends:
            return None
        try:
            return batch.send(self._connection)
        except (JobsError, ConnectionLost):
            return None

    async def _results_of(
        self, batch: FastBatch[M], reply: Awaitable[Message] | None, call: _Call
    ) -> Sequence[AppendResult]:
        """Publish each message alone if the reply does not confirm all of them."""
        try:
            results = None if reply is None else self._read(batch, await reply)
        except (NoResponders, ConnectionLost):
            results = None
        except JobsError as error:  # the result of a message that was sent alone
            results = None if batch.is_batch else [error]
        if results is not None:
            call.last_reply_at = self._now()
            return results
        call.use_batches = False
        is_sent = reply is not None
        return await asyncio.gather(
            *(self._append_alone(part, call, is_sent=is_sent) for part in batch.parts)
        )

    def _read(self, batch: FastBatch[M], message: Message) -> Sequence[AppendResult] | None:
        """Returns None unless the reply confirms that all messages are stored."""
        if not batch.is_batch:
            result = read_pub_ack(batch.parts[0].subject, message)
            return None if result is None else [result]
        if is_complete(message, len(batch.parts)):
            return [_UNKNOWN_SEQUENCE] * len(batch.parts)
        if rejects_batches(message):
            self._no_batches_until = self._now() + _FAST_BATCH_COOLDOWN
        return None

    async def _append_alone(self, message: M, call: _Call, *, is_sent: bool) -> AppendResult:
        """`is_sent`: the message may be stored already."""
        try:
            timeout = call.timeout if call.window is None else call.window.limit(call.timeout)
            result = await self._publish_with_retry(message, timeout, call.last_reply_at)
        except NotAppended as error:
            return NotConfirmed(message.subject, call.timeout) if is_sent else error
        except JobsError as error:
            return error
        call.last_reply_at = self._now()
        return result


@dataclass(slots=True)
class _Call:
    """All messages of a call share the timeout, which restarts with every reply, so that they wait
    through an outage together. After the first batch that was not stored completely, the rest is
    sent one by one.
    """

    timeout: float
    last_reply_at: float
    use_batches: bool
    window: EventWindow | None


def is_final_ack(message: Message) -> bool:
    """Returns False for the progress replies to a batch."""
    return _parse(message).get("type") != "ack"


def is_complete(message: Message, size: int) -> bool:
    body = _parse(message)
    return "batch" in body and body.get("count") == size


def rejects_batches(message: Message) -> bool:
    """Returns whether the stream or its leader does not support fast batches.

    An older server replies to each message as if it came alone.
    """
    body = _parse(message)
    error = body.get("error")
    if isinstance(error, dict):
        return error.get("err_code") == _FAST_BATCHES_NOT_ALLOWED
    return "seq" in body and "batch" not in body and "type" not in body


def _parse(message: Message) -> dict[str, Any]:
    try:
        body = orjson.loads(message.data)
    except orjson.JSONDecodeError:
        return {}
    return body if isinstance(body, dict) else {}
