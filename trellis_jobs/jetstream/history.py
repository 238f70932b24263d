"""Events in the order of the log, of one job or of many: short-lived consumers with a filter.

The filter is part of the request's subject, so permissions can hold a service to its own jobs.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final

import orjson

from trellis_jobs.contract.topology import LOG
from trellis_jobs.errors import InfrastructureMissing, NotConfirmed
from trellis_jobs.jetstream import api
from trellis_jobs.jetstream.connection import Connection, ConnectionLost
from trellis_jobs.jetstream.delivery_info import read_reply
from trellis_jobs.jetstream.log_feed import stored_message
from trellis_jobs.model import subjects
from trellis_jobs.model.job import Entry
from trellis_jobs.wire import log as log_wire
from trellis_jobs.wire.events import Undecodable

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from nats.aio.msg import Msg

    from trellis_jobs.jetstream.log_feed import LogMessage
    from trellis_jobs.model.identity import JobAddress

log = logging.getLogger(__name__)

_BATCH: Final = 256
_PULL_SECONDS: Final = 5.0
_SLACK_SECONDS: Final = 1.0
# Short: a stream takes a thousand consumers (2.15's default), and each read leaves one behind.
# A reader that outlives its consumer makes another where it was.
_IDLE_NS: Final = 1_000_000_000
_READS: Final = 5
_NOT_READY_PAUSE: Final = 0.25
_ENDED_PULL: Final = ("404", "408")


async def read_history(connection: Connection, job: JobAddress) -> list[Entry]:
    """Every event of the job that is in the log now."""
    messages = await _read_messages(connection, job)
    return [entry for entry in map(read_entry, messages) if entry is not None]


async def read_stored(connection: Connection, job: JobAddress) -> list[LogMessage]:
    """Every message under the job's subjects as it is in the log now, whether an event or not."""
    messages = await _read_messages(connection, job)
    return [stored for stored in map(stored_message, messages) if stored is not None]


async def _read_messages(connection: Connection, job: JobAddress) -> list[Msg]:
    for _ in range(_READS):
        try:
            async with _reader(connection, subjects.history(job), after=0) as reader:
                messages = [m async for m in reader.messages(reader.pending)]
            if len(messages) == reader.pending:
                return messages
        except (ConnectionLost, NotConfirmed):
            if connection.is_closed:
                raise
        await connection.until_up()
    raise NotConfirmed(f"a read of the history of {job.job_id}", _READS * _PULL_SECONDS, job.job_id)


async def follow(connection: Connection, watched: str) -> AsyncIterator[Entry]:
    """What the log holds under these subjects, then what is added, without end.

    A lost connection, and a server that is not ready yet after it, is picked up where it broke.
    """
    position = 0
    while True:
        try:
            async with _reader(connection, watched, after=position) as reader:
                async for message in reader.messages(None):
                    position = _sequence(message)
                    entry = read_entry(message)
                    if entry is not None:
                        yield entry
        except (ConnectionLost, NotConfirmed, InfrastructureMissing) as error:
            never_was = position == 0 and isinstance(error, InfrastructureMissing)
            if never_was or connection.is_closed:
                raise
            await asyncio.sleep(_NOT_READY_PAUSE)
        await connection.until_up()


def read_entry(message: Msg) -> Entry | None:
    """The event in a message of the log; what is none is said aloud and left out."""
    sequence = _sequence(message)
    read = log_wire.read(message.subject, sequence, message.data, message.headers)
    if isinstance(read, Entry):
        return read
    reason = read.reason if isinstance(read, Undecodable) else "a worker's heartbeat"
    log.warning(
        "not an event, ignored",
        extra={"subject": message.subject, "sequence": sequence, "reason": reason},
    )
    return None


class _Reader:
    """Pulls from one ephemeral consumer until enough has come, or the consumer may be gone."""

    def __init__(self, connection: Connection, name: str, pending: int) -> None:
        self.pending = pending
        self.inbox = connection.new_inbox()
        self._arrived: asyncio.Queue[Msg | None] = asyncio.Queue()
        self._connection = connection
        self._next = f"{api.PREFIX}.CONSUMER.MSG.NEXT.{LOG}.{name}"

    def receive(self, message: Msg) -> None:
        self._arrived.put_nowait(message)

    def spoil(self) -> None:
        """A pull does not survive a reconnect, and perhaps neither did the consumer."""
        self._arrived.put_nowait(None)

    async def messages(self, enough: int | None) -> AsyncIterator[Msg]:
        """So many as there were, or without end; fewer when some were purged meanwhile."""
        asked = taken = 0
        while enough is None or taken < enough:
            if asked == 0:
                asked = await self._ask(None if enough is None else enough - taken)
            message = await self._take()
            status = None if message is None or message.reply else _status(message)
            if message is None or (status is not None and status not in _ENDED_PULL):
                return
            if status is None:
                asked, taken = asked - 1, taken + 1
                yield message
            elif enough is not None:
                return
            else:
                asked = 0

    async def _ask(self, there: int | None) -> int:
        """For what is there without waiting, or for what comes; returns how many at most."""
        batch = _BATCH if there is None else min(there, _BATCH)
        wait = {"expires": int(_PULL_SECONDS * 1e9)} if there is None else {"no_wait": True}
        body = orjson.dumps({"batch": batch, **wait})
        await self._connection.publish(self._next, body, reply=self.inbox)
        return batch

    async def _take(self) -> Msg | None:
        try:
            async with asyncio.timeout(_PULL_SECONDS + _SLACK_SECONDS):
                return await self._arrived.get()
        except TimeoutError:
            return None


@asynccontextmanager
async def _reader(connection: Connection, watched: str, *, after: int) -> AsyncIterator[_Reader]:
    name = f"read-{secrets.token_hex(8)}"
    config: dict[str, Any] = {
        "name": name,
        "filter_subject": watched,
        "ack_policy": "none",
        "mem_storage": True,
        "num_replicas": 1,
        "inactive_threshold": _IDLE_NS,
        "deliver_policy": "by_start_sequence" if after else "all",
    }
    if after:
        config["opt_start_seq"] = after + 1
    call = f"CONSUMER.CREATE.{LOG}.{name}.{watched}"
    body = {"stream_name": LOG, "action": "create", "config": config}
    made = await api.request(connection, call, body)
    reader = _Reader(connection, name, int(made.get("num_pending", 0)))
    subscription = await connection.subscribe(reader.inbox, reader.receive)
    forget = connection.on_reconnect(reader.spoil)
    try:
        yield reader
    finally:
        forget()
        await connection.unsubscribe(subscription)


def _sequence(message: Msg) -> int:
    info = read_reply(message.reply)
    return info.stream_sequence if info else 0


def _status(message: Msg) -> str | None:
    return (message.headers or {}).get("Status")
