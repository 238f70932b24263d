"""Reads events of one job or of many in the order of the log."""

from __future__ import annotations

import asyncio
import logging
from contextlib import aclosing
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from trellis_jobs.contract.topology import LOG
from trellis_jobs.errors import NotConfirmed
from trellis_jobs.jetstream.client.connection import ConnectionLost
from trellis_jobs.jetstream.client.pull_consumer import (
    PULL_SECONDS,
    EphemeralConsumer,
    open_ephemeral_consumer,
)
from trellis_jobs.jetstream.client.resume_after_disconnect import resume_after_disconnect
from trellis_jobs.jetstream.client.timeouts import RETRY_DELAYS
from trellis_jobs.jetstream.log.feed import log_message
from trellis_jobs.model import subjects
from trellis_jobs.model.events import EventKind
from trellis_jobs.model.job import Entry
from trellis_jobs.model.reducer import NOTES
from trellis_jobs.model.values import Value
from trellis_jobs.wire import log as log_wire
from trellis_jobs.wire.events import Undecodable

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterable
    from datetime import datetime

    from trellis_jobs.jetstream.client.connection import Connection
    from trellis_jobs.jetstream.log.feed import LogMessage
    from trellis_jobs.model.identity import JobAddress

log = logging.getLogger(__name__)

_BATCH_SIZE: Final = 256
# Short, because a stream allows a thousand consumers (2.15's default) and each read may leave one
# behind. A reader that outlives its consumer creates another at its position.
_CONSUMER_IDLE_TIMEOUT: Final = timedelta(seconds=1)
_READ_ATTEMPTS: Final = 5
# A longer history is read without its notes where only the state changes matter.
_WHOLE_HISTORY: Final = 500
_READ_DELAYS: Final = (*RETRY_DELAYS, 0.5, 0.0)
# How long a read waits for a lagging replica, in seconds.
REPLICA_LAG_TIMEOUT: Final = sum(_READ_DELAYS)


class HistorySlice(Value, frozen=True):
    """Events of one job; `newest` is the last sequence of any message under its subjects, or 0."""

    entries: list[Entry]
    newest: int


class HistoryPart(Value, frozen=True):
    """Messages of one job; `count` is the number of all its messages that could be read."""

    messages: list[LogMessage]
    count: int


class Histories:
    """Each read creates a consumer. `deletes_consumers`: the credentials may delete it afterwards.

    A service has no such permission, because it cannot be limited to the service's own consumers.
    """

    def __init__(self, connection: Connection, *, deletes_consumers: bool = False) -> None:
        self._connection = connection
        self._deletes_consumers = deletes_consumers

    async def history_slice(
        self, job: JobAddress, *, after: int = 0, at_least: int = 0
    ) -> HistorySlice:
        """Returns every event of the job in what messages() reads."""
        messages = await self.messages(job, after=after, at_least=at_least)
        return HistorySlice(entries_in(messages), _last_sequence(messages))

    async def read_through(self, job: JobAddress, sequence: int) -> list[LogMessage]:
        """Returns the job's messages up to that sequence or later, or raises NotConfirmed."""
        messages = await self.messages(job, at_least=sequence)
        require_sequence(sequence, _last_sequence(messages), job)
        return messages

    async def messages(
        self, job: JobAddress, *, after: int = 0, at_least: int = 0
    ) -> list[LogMessage]:
        """Returns the messages under the job's subjects after a sequence, events or not.

        A read that ends before `at_least` may come from a lagging replica (1 of 600, right after
        an append), so it is repeated. If it still ends before, the replica lags for longer or the
        messages were purged.
        """
        for delay in _READ_DELAYS:
            found = await self._all_messages(job, after)
            if _last_sequence(found) >= at_least:
                break
            await asyncio.sleep(delay)
        return found

    async def first_messages(self, job: JobAddress, limit: int, *, after: int = 0) -> HistoryPart:
        """Returns at most `limit` messages after a sequence, and how many there are."""
        return await self._read(job, subjects.history(job), after, limit)

    async def state_changes(self, job: JobAddress) -> list[LogMessage]:
        """Returns the messages under the subjects of all events except notes.

        A job may have thousands of notes and few other events. Each kind of event is read by
        itself, because the admin runtime may only create consumers with a single filter.
        """
        kinds = [kind for kind in EventKind if kind not in NOTES]
        reads = (self._read(job, subjects.lifecycle(job, kind), 0, None) for kind in kinds)
        found = [message for part in await asyncio.gather(*reads) for message in part.messages]
        return sorted(found, key=lambda message: message.sequence)

    async def deciding_messages(self, job: JobAddress) -> list[LogMessage]:
        """Returns all messages of a job, or only its state changes if it has very many."""
        begin = await self.first_messages(job, _WHOLE_HISTORY)
        return (
            begin.messages if begin.count <= len(begin.messages) else await self.state_changes(job)
        )

    async def _all_messages(self, job: JobAddress, after: int) -> list[LogMessage]:
        return (await self._read(job, subjects.history(job), after, None)).messages

    async def _read(
        self, job: JobAddress, subject: str, after: int, limit: int | None
    ) -> HistoryPart:
        """Returns as many messages as wanted or raises NotConfirmed; never returns fewer.

        A read that broke off, or during which messages were purged, starts again.
        """
        consumer = self._consumer(subject, after + 1)
        what = f"a read of the history of {job.job_id}"
        for _ in range(_READ_ATTEMPTS):
            try:
                async with open_ephemeral_consumer(self._connection, consumer) as pull:
                    drained = pull.drain(limit)
                    found = [log_message(*delivered) async for delivered in drained]
                wanted = pull.pending if limit is None else min(limit, pull.pending)
                if len(found) == wanted:
                    return HistoryPart(found, pull.pending)
            except (ConnectionLost, NotConfirmed):
                if self._connection.is_closed:
                    raise NotConfirmed(what, None, job.job_id) from None
            await self._connection.wait_until_connected()
        raise NotConfirmed(what, _READ_ATTEMPTS * PULL_SECONDS, job.job_id)

    async def follow(self, subject: str) -> AsyncGenerator[Entry, None]:
        """Yields the events under these subjects, and then new ones without end."""
        async with aclosing(self.follow_messages(subject)) as messages:
            async for message in messages:
                entry = _read(message)
                if entry is not None:
                    yield entry

    async def follow_messages(
        self, subject: str, *, after: int = 0, since: datetime | None = None
    ) -> AsyncGenerator[LogMessage, None]:
        """Like follow(), but yields all messages after a sequence, or stored since a time.

        It resumes after a lost connection, and waits for a server that is not ready yet.
        """
        position = after
        reading = resume_after_disconnect(
            self._connection,
            "the log",
            lambda: self._messages_after(position, subject, since),
            retry_if_missing=lambda: position > 0,
        )
        async with aclosing(reading) as messages:
            async for message in messages:
                position = message.sequence
                yield message

    async def _messages_after(
        self, position: int, subject: str, since: datetime | None
    ) -> AsyncGenerator[LogMessage, None]:
        consumer = self._consumer(subject, position + 1, since)
        async with open_ephemeral_consumer(self._connection, consumer) as pull:
            async for delivered in pull.stream(batch_size=_BATCH_SIZE):
                yield log_message(*delivered)

    def _consumer(
        self, subject: str, start_sequence: int = 1, since: datetime | None = None
    ) -> EphemeralConsumer:
        return EphemeralConsumer(
            stream=LOG,
            name_prefix="read",
            start_sequence=start_sequence,
            start_time=since,
            subject=subject,
            idle_timeout=_CONSUMER_IDLE_TIMEOUT,
            delete_after_use=self._deletes_consumers,
        )


def entries_in(messages: Iterable[LogMessage]) -> list[Entry]:
    return [entry for entry in map(_read, messages) if entry is not None]


def require_sequence(sequence: int, newest: int, job: JobAddress) -> None:
    """Raises NotConfirmed for a read from a lagging replica."""
    if newest < sequence:
        what = f"a read of {job.job_id} at sequence {sequence} or later"
        raise NotConfirmed(what, REPLICA_LAG_TIMEOUT, job.job_id)


def _last_sequence(messages: list[LogMessage]) -> int:
    return messages[-1].sequence if messages else 0


def _read(message: LogMessage) -> Entry | None:
    """Returns the event of a message, or None, with a warning, for a message that is no event."""
    read = log_wire.read(message.subject, message.sequence, message.data, message.headers)
    if isinstance(read, Entry):
        return read
    reason = read.reason if isinstance(read, Undecodable) else "a worker's heartbeat"
    log.warning(
        "message %s on %s is not an event of its job and is ignored: %s",
        message.sequence,
        message.subject,
        reason,
        extra={"subject": message.subject, "sequence": message.sequence, "reason": reason},
    )
    return None
