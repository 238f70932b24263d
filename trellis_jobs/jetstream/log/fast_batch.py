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
from trellis_jobs.jetstream.log.prepared_event import PreparedEvent, Refused, read_answer
from trellis_jobs.jetstream.log.reads import ACK_TIMEOUT

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence

    from trellis_jobs.contract.features import Features
    from trellis_jobs.jetstream.client.message import Message

    Answer = int | Refused | JobsError
    Insist = Callable[[PreparedEvent, float, float], Awaitable[int | Refused]]

# Under way in one call: enough to keep a server busy, and little to lose.
_ROWS_UNDER_WAY: Final = 4
_EVENTS_OF_A_ROW: Final = 128
_BYTES_OF_A_ROW: Final = 1 << 18
_ALONE_UNDER_WAY: Final = _ROWS_UNDER_WAY * _EVENTS_OF_A_ROW

# Where an event of a row is, nobody tells: only that whoever finds nothing of its job is behind.
_SOMEWHERE: Final = 1
_FIRST, _FURTHER, _LAST = 0, 1, 2
_ROWS_NOT_ALLOWED: Final = 10205
# A stream that takes no rows may be told to, or get another leader.
_NO_ROWS_FOR: Final = 60.0


@dataclass(frozen=True, slots=True)
class FastBatch:
    """One event or several."""

    parts: tuple[PreparedEvent, ...]

    @property
    def is_shared(self) -> bool:
        return len(self.parts) > 1

    def send(self, connection: Connection) -> Awaitable[Message]:
        """What the answer is awaited with."""
        if not self.is_shared:
            return self.parts[0].send(connection, ACK_TIMEOUT)
        row, subjects = secrets.token_hex(8), (part.subject for part in self.parts)
        answer = connection.expect(row, subjects, ACK_TIMEOUT, is_the_end)
        try:
            for reply, part in zip(self._replies(row), self.parts, strict=True):
                self._send(connection, part, connection.reply_to(reply))
        except (JobsError, ConnectionLost):
            answer.cancel()
            raise
        return answer

    def _replies(self, row: str) -> Iterator[str]:
        size = len(self.parts)
        for place in range(1, size + 1):
            operation = _FIRST if place == 1 else _LAST if place == size else _FURTHER
            yield f"{row}.{size}.fail.{place}.{operation}.$FI"

    def _send(self, connection: Connection, part: PreparedEvent, reply: str) -> None:
        if not connection.publish_now(part.subject, part.data, reply=reply, block=part.block):
            raise ConnectionLost("a row of events was cut")


class BulkAppender:
    """Appends the first events of many jobs, one after the other without waiting for each."""

    def __init__(self, connection: Connection, features: Features, insist: Insist) -> None:
        self._connection = connection
        self._features = features
        self._publish_with_retry = insist
        self._now = asyncio.get_running_loop().time
        self._no_rows_until = 0.0

    async def append(self, publishes: Iterable[PreparedEvent], patience: float) -> list[Answer]:
        """The place of each in the log, or one that it is not before; in their order."""
        in_rows = self._features.fast_batches and self._now() >= self._no_rows_until
        call = _Call(patience, self._now(), in_rows)
        answers: list[Answer] = []
        under_way: deque[tuple[FastBatch, Awaitable[Message] | None]] = deque()
        for row in self._rows_of(publishes, call):
            if len(under_way) >= (_ROWS_UNDER_WAY if row.is_shared else _ALONE_UNDER_WAY):
                answers += await self._answers_to(*under_way.popleft(), call)
            under_way.append((row, self._send(row)))
            if row.is_shared:
                await asyncio.sleep(0)  # the server works on it while the next one is made
        for sent in under_way:
            answers += await self._answers_to(*sent, call)
        return answers

    def _rows_of(self, publishes: Iterable[PreparedEvent], call: _Call) -> Iterator[FastBatch]:
        most = min(_BYTES_OF_A_ROW, self._connection.max_payload)
        parts: list[PreparedEvent] = []
        size = 0
        for publish in publishes:
            is_full = len(parts) == _EVENTS_OF_A_ROW or size + publish.size > most
            if parts and (is_full or not call.in_rows):
                yield FastBatch(tuple(parts))
                parts, size = [], 0
            parts.append(publish)
            size += publish.size
        if parts:
            yield FastBatch(tuple(parts))

    def _send(self, row: FastBatch) -> Awaitable[Message] | None:
        """What its answer is awaited with; None: not all can be sent, or not without a look."""
        if not self._features.guarded_appends:
            return None
        try:
            return row.send(self._connection)
        except (JobsError, ConnectionLost):
            return None

    async def _answers_to(
        self, row: FastBatch, asked: Awaitable[Message] | None, call: _Call
    ) -> Sequence[Answer]:
        """What is not known after that, each of them is asked for alone."""
        try:
            answers = None if asked is None else self._read(row, await asked)
        except (NoResponders, ConnectionLost):
            answers = None
        except JobsError as error:  # of one alone that is its answer
            answers = None if row.is_shared else [error]
        if answers is not None:
            call.with_inbox_prefix = self._now()
            return answers
        call.in_rows = False
        return await asyncio.gather(*(self._insist_on(part, call) for part in row.parts))

    def _read(self, row: FastBatch, message: Message) -> Sequence[Answer] | None:
        """None: not all of them are known to be in the log."""
        if not row.is_shared:
            answer = read_answer(row.parts[0].subject, message)
            return None if answer is None else [answer]
        if is_whole(message, len(row.parts)):
            return [_SOMEWHERE] * len(row.parts)
        if knows_no_rows(message):
            self._no_rows_until = self._now() + _NO_ROWS_FOR
        return None

    async def _insist_on(self, publish: PreparedEvent, call: _Call) -> Answer:
        try:
            answer = await self._publish_with_retry(publish, call.patience, call.with_inbox_prefix)
        except JobsError as error:
            return error
        call.with_inbox_prefix = self._now()
        return answer


@dataclass(slots=True)
class _Call:
    """Its jobs share their patience: that begins anew with every answer, so that an outage costs it
    once. And once a row was not taken whole, each is sent alone.
    """

    patience: float
    with_inbox_prefix: float
    in_rows: bool


def is_the_end(message: Message) -> bool:
    """Of a row: not if the server only says how far it is."""
    return _said(message).get("type") != "ack"


def is_whole(message: Message, size: int) -> bool:
    said = _said(message)
    return "batch" in said and said.get("count") == size


def knows_no_rows(message: Message) -> bool:
    """Not the stream, or not its leader: an older server takes each event for one alone."""
    said = _said(message)
    error = said.get("error")
    if isinstance(error, dict):
        return error.get("err_code") == _ROWS_NOT_ALLOWED
    return "seq" in said and "batch" not in said and "type" not in said


def _said(message: Message) -> dict[str, Any]:
    try:
        said = orjson.loads(message.data)
    except orjson.JSONDecodeError:
        return {}
    return said if isinstance(said, dict) else {}
