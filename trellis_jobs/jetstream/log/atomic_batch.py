"""An atomic batch: the server stores the events of several jobs together, or none of them."""

from __future__ import annotations

import asyncio
import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING

from trellis_jobs.errors import PayloadTooLarge, ServerTooOld
from trellis_jobs.jetstream.client.pub_ack import Refused, read_pub_ack
from trellis_jobs.wire import headers as h

if TYPE_CHECKING:
    from collections.abc import Iterable

    from trellis_jobs.jetstream.client.connection import Connection
    from trellis_jobs.jetstream.client.message import Message
    from trellis_jobs.jetstream.log.prepared_event import PreparedEvent
    from trellis_jobs.model.identity import JobAddress


@dataclass(slots=True)
class AtomicBatch:
    """Is published and confirmed like one event; its sequence is that of its last event.

    The server gives the events of a batch consecutive sequences, in their order. It checks all
    guards when the last event commits, and reports the first one that fails.

    New jobs come first. Servers without nats-server #8377 (2.12.8 is one; 2.14.6 and 2.15.1 are
    not) check only the last guard while a replicated batch is in flight: they accepted a concurrent
    write to a job of the batch in 200 of 200 tries. No other process writes to a job that is just
    being created.
    """

    parts: tuple[PreparedEvent, ...]

    @classmethod
    def from_events(cls, parts: Iterable[PreparedEvent]) -> AtomicBatch:
        return cls(tuple(sorted(parts, key=lambda part: part.guard > 0)))

    @property
    def subject(self) -> str:
        return " with ".join(part.subject for part in self.parts)

    @property
    def job(self) -> JobAddress:
        return self.parts[0].job

    def sequences(self, last: int) -> dict[str, int]:
        """Returns the sequence of each event by its id."""
        first = last - len(self.parts) + 1
        return {part.event_id: at for at, part in enumerate(self.parts, first)}

    async def publish_once(self, connection: Connection, timeout: float) -> int | Refused | None:
        """Returns the last sequence, or the refusal, or None if the batch must be sent again.

        Each attempt has a new batch id, because the server may still hold a part of an earlier one.
        All events are sent without waiting for replies: a stream allows only 50 open batches.
        """
        batch_id, size = secrets.token_hex(8), len(self.parts)
        blocks = [
            h.in_batch(part.block, batch_id, position, size)
            for position, part in enumerate(self.parts, 1)
        ]
        self._check_sizes(blocks, connection.max_payload)
        requests = (
            connection.start_request(part.subject, part.data, block, timeout)
            for part, block in zip(self.parts, blocks, strict=True)
        )
        *earlier_replies, commit_reply = await asyncio.gather(*requests, return_exceptions=True)
        result = _read(self.parts[-1], commit_reply)
        if result is None:
            # Only the earlier replies tell why a batch is incomplete: reading them raises.
            for part, reply in zip(self.parts, earlier_replies, strict=False):
                _read(part, reply)
        elif isinstance(result, int) and not _belongs_to(batch_id, commit_reply):
            # The leader of the log is older than the connected server, and ignored the batch.
            raise ServerTooOld("an atomic batch of events", "2.12 as the log's leader", "older")
        return result

    def _check_sizes(self, blocks: list[bytes], limit: int) -> None:
        """Check before sending any event: a partial batch would stay open for 10 s."""
        for part, block in zip(self.parts, blocks, strict=True):
            size = len(block) + len(part.data)
            if size > limit:
                raise PayloadTooLarge(part.subject, size, limit)


def _read(part: PreparedEvent, reply: Message | BaseException) -> int | Refused | None:
    """The server replies to all but the last event with an empty message, unless it refuses."""
    if isinstance(reply, BaseException):
        raise reply
    return read_pub_ack(part.subject, reply) if reply.data else None


def _belongs_to(batch_id: str, reply: Message | BaseException) -> bool:
    return not isinstance(reply, BaseException) and batch_id.encode() in reply.data
