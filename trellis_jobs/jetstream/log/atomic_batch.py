"""Events of several jobs on their way into the log as one atomic batch: all of them, or none."""

from __future__ import annotations

import asyncio
import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING

from trellis_jobs.errors import PayloadTooLarge, ServerTooOld
from trellis_jobs.jetstream.log.prepared_event import PreparedEvent, Refused, read_answer
from trellis_jobs.wire import headers as h

if TYPE_CHECKING:
    from collections.abc import Iterable

    from trellis_jobs.jetstream.client.connection import Connection
    from trellis_jobs.jetstream.client.message import Message
    from trellis_jobs.model.identity import JobAddress


@dataclass(slots=True)
class AtomicBatch:
    """Is sent, and confirmed, like one publish; its sequence is that of its last event.

    The server gives the events of a batch consecutive sequences, in their order. It checks all
    guards when the last event commits, and names the first one that fails.

    Jobs that begin come first. Servers without nats-server #8377 (2.12.8 is one; 2.14.6 and 2.15.1
    are not) forget all guards but the last as soon as a replicated batch is on its way: another
    write, sent meanwhile, of a job in it was let in 200 times of 200. Nobody else writes a job
    that is just about to begin.
    """

    parts: tuple[PreparedEvent, ...]

    @classmethod
    def of(cls, parts: Iterable[PreparedEvent]) -> AtomicBatch:
        return cls(tuple(sorted(parts, key=lambda part: part.guard > 0)))

    @property
    def subject(self) -> str:
        return " with ".join(part.subject for part in self.parts)

    @property
    def job(self) -> JobAddress:
        return self.parts[0].job

    def sequences(self, last: int) -> dict[str, int]:
        """Of each event, by its id."""
        first = last - len(self.parts) + 1
        return {part.event_id: at for at, part in enumerate(self.parts, first)}

    async def once(self, connection: Connection, timeout: float) -> int | Refused | None:
        """The last sequence, the refusal, or None: ask again.

        Each time under a new id, for the server may still hold half of an earlier time. All are
        sent before the first answer: a batch that waits between its events is open for longer, and
        a stream takes only 50 open ones.
        """
        batch_id, size = secrets.token_hex(8), len(self.parts)
        blocks = [
            h.in_batch(part.block, batch_id, place, size)
            for place, part in enumerate(self.parts, 1)
        ]
        self._see_that_all_fit(blocks, connection.max_payload)
        asking = (
            connection.question(part.subject, part.data, block, timeout)
            for part, block in zip(self.parts, blocks, strict=True)
        )
        *earlier, commit = await asyncio.gather(*asking, return_exceptions=True)
        verdict = _read(self.parts[-1], commit)
        if verdict is None:
            # Why a batch is incomplete, only the earlier answers tell, by what they raise.
            for part, answer in zip(self.parts, earlier, strict=False):
                _read(part, answer)
        elif isinstance(verdict, int) and not _is_of(batch_id, commit):
            # The leader of the log is older than the server that we are connected to.
            raise ServerTooOld("an atomic batch of events", "2.12 as the log's leader", "older")
        return verdict

    def _see_that_all_fit(self, blocks: list[bytes], limit: int) -> None:
        """Before any is sent: half a batch would stay open for 10 s."""
        for part, block in zip(self.parts, blocks, strict=True):
            size = len(block) + len(part.data)
            if size > limit:
                raise PayloadTooLarge(part.subject, size, limit)


def _read(part: PreparedEvent, answer: Message | BaseException) -> int | Refused | None:
    """An event before the last is answered with an empty message, unless it is refused."""
    if isinstance(answer, BaseException):
        raise answer
    return read_answer(part.subject, answer) if answer.data else None


def _is_of(batch_id: str, answer: Message | BaseException) -> bool:
    return not isinstance(answer, BaseException) and batch_id.encode() in answer.data
