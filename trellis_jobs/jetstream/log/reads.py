"""Reads of a job that are new enough, or raise NotConfirmed.

Any replica may serve a read, and a lagging one returns old data (design D2). An append, a delivery
or a refusal tells which sequence a read must reach; an older read is repeated.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Final

from trellis_jobs.contract.topology import LOG
from trellis_jobs.errors import InfrastructureMissing, NotConfirmed
from trellis_jobs.jetstream.client import api
from trellis_jobs.jetstream.client.connection import ConnectionLost, NoResponders
from trellis_jobs.jetstream.client.pub_ack import Refused, read_pub_ack
from trellis_jobs.jetstream.client.timeouts import (
    ACK_TIMEOUT,
    FAILOVER_TIMEOUT,
    FOREVER,
    MAX_UNANSWERED,
    RETRY_DELAYS,
    retry_delay,
)
from trellis_jobs.jetstream.log.history import entries_in
from trellis_jobs.model import subjects
from trellis_jobs.model.events import EventKind
from trellis_jobs.model.job import Entry, fold
from trellis_jobs.model.job_status import Head
from trellis_jobs.model.values import Value
from trellis_jobs.wire import events as wire
from trellis_jobs.wire import headers as h

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from datetime import datetime

    from trellis_jobs.jetstream.client.connection import Connection
    from trellis_jobs.jetstream.client.message import Message
    from trellis_jobs.jetstream.log.history import Histories
    from trellis_jobs.jetstream.log.prepared_event import PreparedEvent
    from trellis_jobs.model.context import JobContext
    from trellis_jobs.model.events import EventFields
    from trellis_jobs.model.identity import JobAddress
    from trellis_jobs.wire.events import Undecodable

_READ_ATTEMPTS: Final = 200
# No log reaches this sequence, so the server refuses every write with it as the guard.
_UNREACHABLE_SEQUENCE: Final = str(2**63 - 1)


class Latest(Value, frozen=True):
    """The newest event and status of a job, and the context for its next event."""

    head: Head
    context: JobContext

    def event_fields(self, job: JobAddress, at: datetime) -> EventFields:
        """The fields of an event that uses up no try."""
        return {"job": job, "context": self.context, "at": at, "tries": self.head.status.tries}


class LogReads:
    def __init__(self, connection: Connection, histories: Histories) -> None:
        self._connection = connection
        self._histories = histories
        self._loop = asyncio.get_running_loop()

    async def newest(self, subject: str) -> Message | None:
        """Returns the newest message on a subject (wildcards allowed) from any replica."""
        send = partial(api.newest, self._connection, LOG, subject, timeout=ACK_TIMEOUT)
        retries, missing_since = 0, FOREVER
        while True:
            message = await self._request(f"a read of {subject}", send)
            status = "503" if message is None else (message.headers or {}).get("Status")
            if status is None:
                return message
            if status == "404":
                return None
            now = self._loop.time()
            missing_since = min(missing_since, now)
            if now - missing_since > FAILOVER_TIMEOUT:
                raise InfrastructureMissing(f"stream {LOG} with direct access")
            await asyncio.sleep(retry_delay(retries))
            retries += 1

    async def _request(self, what: str, send: Callable[[], Awaitable[Message]]) -> Message | None:
        """Returns None when the stream has no leader or does not exist."""
        started_at = self._loop.time()
        for _ in range(MAX_UNANSWERED):
            try:
                return await send()
            except NoResponders:
                return None
            except ConnectionLost:
                if self._connection.is_closed:
                    raise NotConfirmed(what, None) from None
            await self._connection.wait_until_connected()
        raise NotConfirmed(what, self._loop.time() - started_at)

    async def newest_sequence_from_leader(self, job: JobAddress) -> int:
        """Returns the sequence of the job's newest event, or 0; never from a lagging replica.

        Only the leader handles writes, so this sends a write whose guard always fails: the refusal
        contains the newest sequence.
        """
        subject, history = subjects.lifecycle(job, EventKind.HEARTBEAT), subjects.history(job)
        guard_block = h.block(
            {h.EXPECTED_SEQUENCE: _UNREACHABLE_SEQUENCE, h.EXPECTED_SUBJECT: history}
        )
        timeout = api.limited_timeout(self._connection, ACK_TIMEOUT)
        send = partial(self._connection.start_request, subject, b"", guard_block, timeout)
        what, started_at = f"a read of {job.job_id} from the leader", self._loop.time()
        for attempt in range(_READ_ATTEMPTS):
            message = await self._request(what, send)
            result = None if message is None else read_pub_ack(subject, message)
            if isinstance(result, Refused):
                return result.last_sequence
            await asyncio.sleep(retry_delay(attempt))
        raise NotConfirmed(what, self._loop.time() - started_at, job.job_id)

    async def last(self, job: JobAddress, kind: EventKind) -> Entry | None:
        message = await self.newest(subjects.lifecycle(job, kind))
        decoded = None if message is None else _decode(job, message)
        return decoded if isinstance(decoded, Entry) else None

    async def latest(self, job: JobAddress, *, at_least: int, shared: bool) -> Latest | None:
        started_at = self._loop.time()
        for attempt in range(_READ_ATTEMPTS):
            message = await self.newest(subjects.history(job))
            if message is None and at_least == 0:
                return None
            if message is not None and api.sequence_of(message) >= at_least:
                return await self._latest_from(job, message, shared=shared)
            await asyncio.sleep(retry_delay(attempt))
        what = f"a read of {job.job_id} at sequence {at_least} or later"
        raise NotConfirmed(what, self._loop.time() - started_at, job.job_id)

    async def own_copy(self, event: PreparedEvent) -> int | None:
        """Returns the sequence of this event if it is the newest of its kind."""
        message = await self.newest(event.subject)
        if message is None or (message.headers or {}).get(h.EVENT_ID) != event.event_id:
            return None
        return api.sequence_of(message)

    async def find(self, event: PreparedEvent, refused_at: int) -> int | None:
        """Returns the sequence of an event whose repeated publish was refused, or None.

        The newest event of its kind often decides. Otherwise only a history up to the refusal
        does, because a lagging replica may not have the event yet.
        """
        for delay in RETRY_DELAYS:
            message = await self.newest(event.subject)
            if message is not None:
                if (message.headers or {}).get(h.EVENT_ID) == event.event_id:
                    return api.sequence_of(message)
                if refused_at <= api.sequence_of(message):
                    return None
            await asyncio.sleep(delay)
        for stored in await self._histories.read_through(event.job, refused_at):
            if (stored.headers or {}).get(h.EVENT_ID) == event.event_id:
                return stored.sequence
        return None

    async def _latest_from(
        self, job: JobAddress, newest: Message, *, shared: bool
    ) -> Latest | None:
        """Uses the newest event, or the whole history if that event is not enough."""
        decoded, sequence = _decode(job, newest), api.sequence_of(newest)
        if isinstance(decoded, Entry) and decoded.status is not None and not shared:
            return Latest(Head(sequence, decoded.status), decoded.event.context)
        whole = await self._histories.read_through(job, sequence)
        folded = fold(entries_in(whole))
        if folded is None:
            return None
        return Latest(Head(whole[-1].sequence, folded.status), folded.context)


def _decode(job: JobAddress, message: Message) -> Entry | Undecodable:
    """A direct get has the server's headers once; with a forged event they appear twice."""
    headers = message.headers or {}
    forged = any("\n" in headers.get(name, "") for name in h.OF_SERVER_REPLIES)
    stored = headers if forged else None
    return wire.decode(
        message.data, expected=job, sequence=api.sequence_of(message), headers=stored
    )
