"""Reads the newest messages of the log, after a position and up to a limit."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from trellis_jobs.contract.topology import LOG
from trellis_jobs.jetstream.client.pull_consumer import (
    EphemeralConsumer,
    open_ephemeral_consumer,
)
from trellis_jobs.jetstream.log.feed import LogFeed, log_message

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractAsyncContextManager

    from trellis_jobs.jetstream.client.connection import Connection
    from trellis_jobs.jetstream.client.pull_consumer import PullConsumer
    from trellis_jobs.jetstream.log.feed import LogMessage

_CONSUMER_IDLE_TIMEOUT: Final = timedelta(seconds=1)
# How the part of the log grows in which the newest messages are looked for, and how often.
_WINDOW_GROWTH: Final = 8
_WINDOWS: Final = 4


@dataclass(frozen=True, slots=True)
class TailSlice:
    """Messages, oldest first; `position` is the sequence after which a reader continues.

    `skipped` is how many messages match between the requested position and these, at least.
    """

    messages: list[LogMessage]
    position: int
    skipped: int = 0


class LogTail:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def after(self, position: int, subject: str, limit: int) -> TailSlice:
        """Returns all messages after a position if they are at most `limit`, else the newest."""
        async with self._reading(position, subject) as pull:
            count = pull.pending
            if count <= limit:
                messages = [log_message(*delivered) async for delivered in pull.drain()]
                return TailSlice(messages, messages[-1].sequence if messages else position)
        newest = await self.newest(subject, limit, least=position)
        return TailSlice(newest.messages, newest.position, max(0, count - len(newest.messages)))

    async def newest(self, subject: str, limit: int, *, least: int = 0) -> TailSlice:
        """Returns the newest messages after `least`.

        They may be fewer than `limit` if only few of the last messages of the log match: the read
        does not search the whole log for more.
        """
        end = (await LogFeed(self._connection).extent()).last_sequence
        begins = list(_begins(end, limit, least))
        for begin in begins:
            async with self._reading(begin, subject) as pull:
                if pull.pending < limit and begin != begins[-1]:
                    continue
                messages = [log_message(*delivered) async for delivered in pull.drain()]
                break
        return TailSlice(messages[-limit:], messages[-1].sequence if messages else begin)

    def _reading(self, position: int, subject: str) -> AbstractAsyncContextManager[PullConsumer]:
        consumer = EphemeralConsumer(
            stream=LOG,
            name_prefix="tail",
            start_sequence=position + 1,
            subject=subject,
            idle_timeout=_CONSUMER_IDLE_TIMEOUT,
            delete_after_use=True,
        )
        return open_ephemeral_consumer(self._connection, consumer)


def _begins(end: int, limit: int, least: int) -> Iterator[int]:
    """Positions from which to read, the nearest to the end first, none before `least`."""
    for power in range(_WINDOWS):
        begin = max(least, end - limit * _WINDOW_GROWTH**power)
        yield begin
        if begin == least:
            return
