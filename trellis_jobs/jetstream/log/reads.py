"""Reads of a job that are new enough, or say that they are not.

Any replica answers a read, and one that lags answers with the past (design D2). What a read must
reach is known from what was appended, delivered or refused; until one does, nothing is concluded.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Final

from trellis_jobs.contract.topology import LOG
from trellis_jobs.errors import InfrastructureMissing, NotConfirmed
from trellis_jobs.jetstream.client import api
from trellis_jobs.jetstream.client.connection import ConnectionLost, NoResponders
from trellis_jobs.jetstream.log.history import entries_in
from trellis_jobs.jetstream.log.prepared_event import Refused, read_pub_ack
from trellis_jobs.model import subjects
from trellis_jobs.model.events import EventKind
from trellis_jobs.model.job import Entry, fold
from trellis_jobs.model.job_status import Head
from trellis_jobs.model.values import Value
from trellis_jobs.wire import events as wire
from trellis_jobs.wire import headers as h

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from trellis_jobs.jetstream.client.connection import Connection
    from trellis_jobs.jetstream.client.message import Message
    from trellis_jobs.jetstream.log.history import Histories
    from trellis_jobs.jetstream.log.prepared_event import PreparedEvent
    from trellis_jobs.model.context import JobContext
    from trellis_jobs.model.identity import JobAddress
    from trellis_jobs.wire.events import Undecodable

ACK_TIMEOUT: Final = 5.0
RETRY_DELAYS: Final = (0.005, 0.02, 0.05, 0.1, 0.25)
# A stream without a leader looks like a missing one; a new leader took up to 8 s (measured).
FAILOVER_TIMEOUT: Final = 10.0
FOREVER: Final = float("inf")
_MAX_UNANSWERED: Final = 15
_READ_ATTEMPTS: Final = 200
# A guard that nothing meets: no log ever comes so far.
_UNREACHABLE_SEQUENCE: Final = str(2**63 - 1)


class Latest(Value, frozen=True):
    """Where a job stands, and the context that its next event carries on."""

    head: Head
    context: JobContext


class LogReads:
    def __init__(self, connection: Connection, histories: Histories) -> None:
        self._connection = connection
        self._histories = histories
        self._loop = asyncio.get_running_loop()

    async def newest(self, subject: str) -> Message | None:
        """The newest message on a subject (wildcards allowed), from whichever replica answers."""
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
        """None: nobody is there to be asked."""
        started_at = self._loop.time()
        for _ in range(_MAX_UNANSWERED):
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
        """Where the job's newest event is, 0: nowhere. A replica that lags has no say in it.

        Only the leader is asked for writes; its refusal of one that nothing allows names the place.
        """
        subject, history = subjects.lifecycle(job, EventKind.HEARTBEAT), subjects.history(job)
        guard_block = h.block(
            {h.EXPECTED_SEQUENCE: _UNREACHABLE_SEQUENCE, h.EXPECTED_SUBJECT: history}
        )
        timeout = api.limited_timeout(self._connection, ACK_TIMEOUT)
        send = partial(self._connection.start_request, subject, b"", guard_block, timeout)
        what, started_at = f"the leader's word on {job.job_id}", self._loop.time()
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
            if message is not None and sequence_of(message) >= at_least:
                return await self._latest_from(job, message, shared=shared)
            await asyncio.sleep(retry_delay(attempt))
        what = f"a read of {job.job_id} at sequence {at_least} or later"
        raise NotConfirmed(what, self._loop.time() - started_at, job.job_id)

    async def own_copy(self, event: PreparedEvent) -> int | None:
        """Where this very publish is, if it is the newest of its kind."""
        message = await self.newest(event.subject)
        if message is None or (message.headers or {}).get(h.EVENT_ID) != event.event_id:
            return None
        return sequence_of(message)

    async def find(self, event: PreparedEvent, refused_at: int) -> int | None:
        """Where a publish is that was refused, perhaps by its own first copy; None: nowhere.

        A newer event of its kind tells at once. Otherwise only a history tells that goes as far as
        the refusal did: one that lags does not have it either.
        """
        for delay in RETRY_DELAYS:
            message = await self.newest(event.subject)
            if message is not None:
                if (message.headers or {}).get(h.EVENT_ID) == event.event_id:
                    return sequence_of(message)
                if refused_at <= sequence_of(message):
                    return None
            await asyncio.sleep(delay)
        for stored in await self._histories.read_through(event.job, refused_at):
            if (stored.headers or {}).get(h.EVENT_ID) == event.event_id:
                return stored.sequence
        return None

    async def _latest_from(
        self, job: JobAddress, newest: Message, *, shared: bool
    ) -> Latest | None:
        """By the newest event, or by the whole history where that says too little."""
        decoded, sequence = _decode(job, newest), sequence_of(newest)
        if isinstance(decoded, Entry) and decoded.status is not None and not shared:
            return Latest(Head(sequence, decoded.status), decoded.event.context)
        whole = await self._histories.read_through(job, sequence)
        folded = fold(entries_in(whole))
        if folded is None:
            return None
        return Latest(Head(whole[-1].sequence, folded.status), folded.context)


def retry_delay(retries: int) -> float:
    return RETRY_DELAYS[min(retries, len(RETRY_DELAYS) - 1)]


def sequence_of(message: Message) -> int:
    """The log sequence in the answer to a direct get (the server's own line comes last)."""
    return int((message.headers or {})["Nats-Sequence"].rsplit("\n", 1)[-1])


def _decode(job: JobAddress, message: Message) -> Entry | Undecodable:
    """An answer to a direct get always carries the server's headers once; a forged event twice."""
    headers = message.headers or {}
    forged = any("\n" in headers.get(name, "") for name in h.OF_SERVER_REPLIES)
    stored = headers if forged else None
    return wire.decode(message.data, expected=job, sequence=sequence_of(message), headers=stored)
