"""The first events of many jobs on their way into the log: in rows, with one answer to each.

A row is what NATS calls a fast batch (2.14). Each event is stored as if it came alone, in its
order and under its own guard, but one answer tells how many went in. What a server must know of it
is in the subject that it answers an event at:

    <inbox>.<row>.<after how many, at most, it says how far it is>.fail.<place>.<operation>.$FI

`fail`: after an event that is refused, or did not arrive, no other of the row goes in. Whatever
the answer is, and if none comes, each of them may be sent again alone: it has its guard and id.
"""

from __future__ import annotations

import asyncio
import secrets
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import orjson

from trellis_jobs.errors import JobsError
from trellis_jobs.jetstream.client.connection import Connection, ConnectionLost, NoResponders
from trellis_jobs.jetstream.log.prepared_event import PreparedEvent, Refused, read_pub_ack
from trellis_jobs.jetstream.log.reads import ACK_TIMEOUT

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence

    from trellis_jobs.contract.features import Features
    from trellis_jobs.jetstream.client.message import Message

    AppendResult = int | Refused | JobsError
    PublishWithRetry = Callable[[PreparedEvent, float, float], Awaitable[int | Refused]]

# Under way in one call: enough to keep a server busy, and little to lose.
_MAX_BATCHES_IN_FLIGHT: Final = 4
_MAX_EVENTS_PER_BATCH: Final = 128
_MAX_BYTES_PER_BATCH: Final = 1 << 18
_MAX_SINGLES_IN_FLIGHT: Final = _MAX_BATCHES_IN_FLIGHT * _MAX_EVENTS_PER_BATCH

# Where an event of a row is, nobody tells: only that whoever finds nothing of its job is behind.
_UNKNOWN_SEQUENCE: Final = 1
_FIRST, _NEXT, _LAST = 0, 1, 2
_FAST_BATCHES_NOT_ALLOWED: Final = 10205
# A stream that takes no rows may be told to, or get another leader.
_FAST_BATCH_COOLDOWN: Final = 60.0


@dataclass(frozen=True, slots=True)
class FastBatch:
    """One event or several."""

    parts: tuple[PreparedEvent, ...]

    @property
    def is_batch(self) -> bool:
        return len(self.parts) > 1

    def send(self, connection: Connection) -> Awaitable[Message]:
        """What the answer is awaited with."""
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

    def _send(self, connection: Connection, part: PreparedEvent, reply: str) -> None:
        if not connection.publish_nowait(part.subject, part.data, reply=reply, block=part.block):
            raise ConnectionLost("a row of events was cut")


class BulkAppender:
    """Appends the first events of many jobs, one after the other without waiting for each."""

    def __init__(
        self, connection: Connection, features: Features, publish_with_retry: PublishWithRetry
    ) -> None:
        self._connection = connection
        self._features = features
        self._publish_with_retry = publish_with_retry
        self._now = asyncio.get_running_loop().time
        self._no_batches_until = 0.0

    async def append(self, events: Iterable[PreparedEvent], timeout: float) -> list[AppendResult]:
        """The place of each in the log, or one that it is not before; in their order."""
        use_batches = self._features.fast_batches and self._now() >= self._no_batches_until
        call = _Call(timeout, self._now(), use_batches)
        results: list[AppendResult] = []
        in_flight: deque[tuple[FastBatch, Awaitable[Message] | None]] = deque()
        for batch in self._batches_of(events, call):
            if len(in_flight) >= (
                _MAX_BATCHES_IN_FLIGHT if batch.is_batch else _MAX_SINGLES_IN_FLIGHT
            ):
                results += await self._results_of(*in_flight.popleft(), call)
            in_flight.append((batch, self._send(batch)))
            if batch.is_batch:
                await asyncio.sleep(0)  # the server works on it while the next one is made
        for pending in in_flight:
            results += await self._results_of(*pending, call)
        return results

    def _batches_of(self, events: Iterable[PreparedEvent], call: _Call) -> Iterator[FastBatch]:
        max_bytes = min(_MAX_BYTES_PER_BATCH, self._connection.max_payload)
        parts: list[PreparedEvent] = []
        size = 0
        for event in events:
            is_full = len(parts) == _MAX_EVENTS_PER_BATCH or size + event.size > max_bytes
            if parts and (is_full or not call.use_batches):
                yield FastBatch(tuple(parts))
                parts, size = [], 0
            parts.append(event)
            size += event.size
        if parts:
            yield FastBatch(tuple(parts))

    def _send(self, batch: FastBatch) -> Awaitable[Message] | None:
        """What its answer is awaited with; None: not all can be sent, or not without a look."""
        if not self._features.guarded_appends:
            return None
        try:
            return batch.send(self._connection)
        except (JobsError, ConnectionLost):
            return None

    async def _results_of(
        self, batch: FastBatch, reply: Awaitable[Message] | None, call: _Call
    ) -> Sequence[AppendResult]:
        """What is not known after that, each of them is asked for alone."""
        try:
            results = None if reply is None else self._read(batch, await reply)
        except (NoResponders, ConnectionLost):
            results = None
        except JobsError as error:  # of one alone that is its answer
            results = None if batch.is_batch else [error]
        if results is not None:
            call.last_reply_at = self._now()
            return results
        call.use_batches = False
        return await asyncio.gather(*(self._append_alone(part, call) for part in batch.parts))

    def _read(self, batch: FastBatch, message: Message) -> Sequence[AppendResult] | None:
        """None: not all of them are known to be in the log."""
        if not batch.is_batch:
            result = read_pub_ack(batch.parts[0].subject, message)
            return None if result is None else [result]
        if is_complete(message, len(batch.parts)):
            return [_UNKNOWN_SEQUENCE] * len(batch.parts)
        if rejects_batches(message):
            self._no_batches_until = self._now() + _FAST_BATCH_COOLDOWN
        return None

    async def _append_alone(self, event: PreparedEvent, call: _Call) -> AppendResult:
        try:
            result = await self._publish_with_retry(event, call.timeout, call.last_reply_at)
        except JobsError as error:
            return error
        call.last_reply_at = self._now()
        return result


@dataclass(slots=True)
class _Call:
    """Its jobs share their patience: that begins anew with every answer, so that an outage costs it
    once. And once a row was not taken whole, each is sent alone.
    """

    timeout: float
    last_reply_at: float
    use_batches: bool


def is_final_ack(message: Message) -> bool:
    """Of a row: not if the server only says how far it is."""
    return _parse(message).get("type") != "ack"


def is_complete(message: Message, size: int) -> bool:
    body = _parse(message)
    return "batch" in body and body.get("count") == size


def rejects_batches(message: Message) -> bool:
    """Not the stream, or not its leader: an older server takes each event for one alone."""
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
