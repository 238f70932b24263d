"""The whole log, from a position on and without end, in batches: what projections are made from."""

from __future__ import annotations

import asyncio
import logging
import secrets
from contextlib import aclosing
from dataclasses import dataclass
from enum import Enum, auto
from typing import TYPE_CHECKING, Any, Final

import orjson

from trellis_jobs.contract.topology import LOG
from trellis_jobs.errors import (
    InfrastructureError,
    InfrastructureMissing,
    JobsError,
    RequestRefused,
)
from trellis_jobs.jetstream import api
from trellis_jobs.jetstream.connection import ConnectionLost
from trellis_jobs.jetstream.delivery_info import read_reply

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Mapping

    from nats.aio.msg import Msg

    from trellis_jobs.jetstream.connection import Connection

log = logging.getLogger(__name__)

_PULL: Final = 4_000
_PULL_BYTES: Final = 16 * 1024 * 1024
_PULL_SECONDS: Final = 5.0
_SLACK_SECONDS: Final = 2.0
_IDLE_NS: Final = 60 * 10**9
_RETRY_AFTER: Final = 0.25


_NOTHING_MORE: Final = frozenset({"404", "408"})
# A pull that is bounded by bytes ends with one of these; the consumer is well.
_FULL: Final = ("Batch Completed", "Message Size Exceeds MaxBytes")


class _Pull(Enum):
    GOES_ON = auto()
    IDLE = auto()
    GONE = auto()


@dataclass(frozen=True, slots=True)
class LogMessage:
    """`stored_ns` is the server's time; `pending` how many messages came after this one then."""

    subject: str
    sequence: int
    stored_ns: int
    pending: int
    data: bytes
    headers: Mapping[str, str] | None


@dataclass(frozen=True, slots=True)
class LogExtent:
    """`created` tells this log from one of the same name that was there before it."""

    created: str
    messages: int
    last_sequence: int


@dataclass(frozen=True, slots=True)
class Place:
    """Where somebody stopped reading, and in which log; `stored_ns` is 0 where it is not known."""

    sequence: int = 0
    stored_ns: int = 0
    created: str | None = None


class LogReplaced(JobsError):
    """The log is not the one that was read before: it was made anew, or lost its newest events."""


class LogFeed:
    """Each call of `batches` begins where it is told, and goes on through any outage."""

    def __init__(self, connection: Connection, *, most: int = 2_000) -> None:
        self._connection = connection
        self._most = most
        self._arrived: asyncio.Queue[Msg | None] = asyncio.Queue()
        self._asked = 0

    async def extent(self) -> LogExtent:
        """Raises InfrastructureMissing when there is no log."""
        try:
            info = await api.request(self._connection, f"STREAM.INFO.{LOG}")
        except RequestRefused as refusal:
            if refusal.code == api.STREAM_NOT_FOUND:
                raise InfrastructureMissing(f"stream {LOG}") from None
            raise
        state = info["state"]
        return LogExtent(info["created"], int(state["messages"]), int(state["last_seq"]))

    async def holds(self, sequence: int) -> bool:
        """Whether a message is still in the log; purges and expiry leave gaps."""
        try:
            await api.request(self._connection, f"STREAM.MSG.GET.{LOG}", {"seq": sequence})
        except RequestRefused as refusal:
            if refusal.code == api.MESSAGE_NOT_FOUND:
                return False
            raise
        return True

    async def batches(self, after: Place) -> AsyncGenerator[list[LogMessage], None]:
        """What comes after a place: as many at once as have arrived, and at most `most`.

        Raises LogReplaced when that place is not in this log.
        """
        async with aclosing(self._through_outages(after)) as batches:
            async for batch in batches:
                if batch:
                    yield batch

    async def up_to(self, after: Place, until: int) -> AsyncGenerator[list[LogMessage], None]:
        """What the log holds after a place and up to a sequence that it has reached already."""
        async with aclosing(self._through_outages(after)) as batches:
            async for batch in batches:
                wanted = [message for message in batch if message.sequence <= until]
                if wanted:
                    yield wanted
                # The last ones may be gone from the log: then a pull comes back empty.
                if not batch or batch[-1].sequence >= until or batch[-1].pending == 0:
                    return

    async def _through_outages(self, after: Place) -> AsyncGenerator[list[LogMessage], None]:
        """Empty batches too: there was nothing more at that time. An outage is said once."""
        place, is_out = after, False
        while True:
            try:
                async with aclosing(self._from_one_consumer(place)) as batches:
                    async for batch in batches:
                        is_out = False
                        if batch:
                            last = batch[-1]
                            place = Place(last.sequence, last.stored_ns, place.created)
                        yield batch
            except (ConnectionLost, InfrastructureError) as error:
                if self._connection.is_closed:
                    raise
                if not is_out:
                    log.warning("the log cannot be read right now", extra={"error": str(error)})
                is_out = True
                await asyncio.sleep(_RETRY_AFTER)
            await self._connection.until_up()

    async def _from_one_consumer(self, after: Place) -> AsyncGenerator[list[LogMessage], None]:
        """Until the consumer, or a pull of it, seems to be gone."""
        name, inbox = f"feed-{secrets.token_hex(8)}", self._connection.new_inbox()
        self._arrived, self._asked = asyncio.Queue(), 0
        arrived = self._arrived
        check_log(after, await self.extent())
        if await self._make(name, after) == 0:
            yield []
        subscription = await self._connection.subscribe(inbox, arrived.put_nowait)
        forget = self._connection.on_reconnect(lambda: arrived.put_nowait(None))
        try:
            while (batch := await self._next(name, inbox)) is not None:
                if not batch or batch[0].sequence != after.sequence:
                    yield batch
                    continue
                known = batch.pop(0)
                _check_place(after, known)
                if batch or known.pending == 0:
                    yield batch
        finally:
            forget()
            await self._connection.unsubscribe(subscription)

    async def _make(self, name: str, after: Place) -> int:
        """How many messages there are to come.

        The one at the place itself is among them, to be looked at: it must be the one it was.
        """
        config: dict[str, Any] = {
            "name": name,
            "ack_policy": "none",
            "mem_storage": True,
            "num_replicas": 1,
            "inactive_threshold": _IDLE_NS,
            "deliver_policy": "by_start_sequence" if after.sequence else "all",
        }
        if after.sequence:
            config["opt_start_seq"] = after.sequence
        body = {"stream_name": LOG, "action": "create", "config": config}
        made = await api.request(self._connection, f"CONSUMER.CREATE.{LOG}.{name}", body)
        return int(made.get("num_pending", 0))

    async def _next(self, name: str, inbox: str) -> list[LogMessage] | None:
        """The next messages; none of them when there are no more for now; None when it is over."""
        batch: list[LogMessage] = []
        while not batch:
            await self._ask_for_more(name, inbox)
            pull = self._take_in(await self._arrival(), batch)
            if pull is _Pull.GONE and batch:
                self._arrived.put_nowait(None)
            elif pull is not _Pull.GOES_ON:
                return batch if batch or pull is _Pull.IDLE else None
        return batch

    async def _ask_for_more(self, name: str, inbox: str) -> None:
        if self._asked > _PULL // 2:
            return
        self._asked += _PULL
        body = {"batch": _PULL, "max_bytes": _PULL_BYTES, "expires": int(_PULL_SECONDS * 1e9)}
        subject = f"{api.PREFIX}.CONSUMER.MSG.NEXT.{LOG}.{name}"
        await self._connection.publish(subject, orjson.dumps(body), reply=inbox)

    async def _arrival(self) -> Msg | None:
        """None when there is none, though there should at least be the end of a pull."""
        try:
            async with asyncio.timeout(_PULL_SECONDS + _SLACK_SECONDS):
                return await self._arrived.get()
        except TimeoutError:
            return None

    def _take_in(self, message: Msg | None, batch: list[LogMessage]) -> _Pull:
        """This one, and those that have arrived as well."""
        while True:
            if message is None:
                return _Pull.GONE
            stored = stored_message(message)
            if stored is not None:
                self._asked -= 1
                batch.append(stored)
            elif (ended := self._end_pull(message.headers or {})) is not _Pull.GOES_ON:
                return ended
            if len(batch) >= self._most or self._arrived.empty():
                return _Pull.GOES_ON
            message = self._arrived.get_nowait()

    def _end_pull(self, headers: Mapping[str, str]) -> _Pull:
        """By what the server says at the end of a pull, and what it has not delivered of it."""
        undelivered = headers.get("Nats-Pending-Messages", "")
        left = int(undelivered) if undelivered.isdigit() else self._asked
        self._asked = max(0, self._asked - left)
        if headers.get("Status") in _NOTHING_MORE:
            return _Pull.IDLE
        is_full = headers.get("Description", "").startswith(_FULL)
        return _Pull.GOES_ON if is_full else _Pull.GONE


def check_log(after: Place, log: LogExtent) -> None:
    """Raises LogReplaced when the place cannot be in this log."""
    if after.created is not None and after.created != log.created:
        raise LogReplaced(f"the log was made at {log.created}, not at {after.created}")
    if after.sequence > log.last_sequence:
        raise LogReplaced(f"the log ends at {log.last_sequence}, before {after.sequence}")


def _check_place(after: Place, message: LogMessage) -> None:
    if after.stored_ns and message.stored_ns != after.stored_ns:
        raise LogReplaced(f"the log has another message at {after.sequence} than it had")


def stored_message(message: Msg) -> LogMessage | None:
    """What a consumer of the log delivered; None when it was no delivery."""
    info = read_reply(message.reply)
    if info is None:
        return None
    return LogMessage(
        message.subject,
        info.stream_sequence,
        info.stored_ns,
        info.pending,
        message.data,
        message.headers,
    )
