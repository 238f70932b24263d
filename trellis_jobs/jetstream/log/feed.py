"""The whole log, from a position on and without end, in batches: what projections are made from."""

from __future__ import annotations

from contextlib import aclosing
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final, Literal

from trellis_jobs.contract.topology import LOG
from trellis_jobs.errors import InfrastructureMissing, JobsError, RequestRefused
from trellis_jobs.jetstream.client import api, stored_message
from trellis_jobs.jetstream.client.message import read_headers
from trellis_jobs.jetstream.client.pull_consumer import End, EphemeralConsumer, pulling_anew
from trellis_jobs.jetstream.client.resume_after_disconnect import resume_after_disconnect
from trellis_jobs.jetstream.client.stream_info import next_in_log
from trellis_jobs.model.values import Value
from trellis_jobs.wire.headers import may_be_server_reply

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Mapping

    from trellis_jobs.jetstream.client.connection import Connection
    from trellis_jobs.jetstream.client.delivery_info import DeliveryInfo
    from trellis_jobs.jetstream.client.message import Message
    from trellis_jobs.jetstream.client.pull_consumer import Delivered, PullConsumer

_PULL: Final = 8_000
_PULL_BYTES: Final = 16 * 1024 * 1024
_IDLE: Final = timedelta(minutes=1)


class LogMessage(Value, frozen=True):
    """`stored_ns` is the server's time; `pending` how many messages came after this one then.

    `block` are its headers as they came: few readers ask for them.
    """

    subject: str
    sequence: int
    stored_ns: int
    pending: int
    data: bytes
    block: bytes = b""

    @property
    def headers(self) -> Mapping[str, str]:
        return read_headers(self.block) if self.block else {}

    @property
    def reply_headers(self) -> Mapping[str, str] | None:
        """The same where some of them may be those of a server's reply (design D21)."""
        return self.headers if may_be_server_reply(self.block) else None

    @property
    def stored_at(self) -> datetime:
        return stored_message.moment_of(self.stored_ns)


@dataclass(frozen=True, slots=True)
class LogExtent:
    """`created` tells this log from one of the same name that was there before it."""

    created: str
    messages: int
    last_sequence: int


@dataclass(frozen=True, slots=True)
class LogPosition:
    """Where somebody stopped reading, and in which log; `stored_ns` is 0 where it is not known."""

    sequence: int = 0
    stored_ns: int = 0
    created: str | None = None


class LogReplaced(JobsError):
    """The log is not the one that was read before: it was made anew, or lost its newest events."""


class LogFeed:
    """Each call of `batches` begins where it is told, and goes on through any outage."""

    def __init__(self, connection: Connection, *, most: int = 5_000) -> None:
        self._connection = connection
        self._most = most
        # A pull must have room for the largest message with its headers: smaller ones never end.
        self._most_bytes = max(_PULL_BYTES, 2 * connection.max_payload)

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
        return await stored_message.at_sequence(self._connection, LOG, sequence) is not None

    async def batches(self, after: LogPosition) -> AsyncGenerator[list[LogMessage], None]:
        """What comes after a place: as many at once as have arrived, and at most `most`.

        Raises LogReplaced when that place is not in this log.
        """
        async with aclosing(self._through_outages(after)) as batches:
            async for batch in batches:
                if batch:
                    yield batch

    async def up_to(self, after: LogPosition, until: int) -> AsyncGenerator[list[LogMessage], None]:
        """What the log holds after a place and up to a sequence that it has reached already.

        The last ones may be gone from the log. That nothing more comes is not enough to say so: a
        server may stall, or the consumer be with a replica that lags.
        """
        last = after.sequence
        async with aclosing(self._through_outages(after)) as batches:
            async for batch in batches:
                wanted = [message for message in batch if message.sequence <= until]
                if wanted:
                    yield wanted
                last = batch[-1].sequence if batch else last
                seems_over = not batch or batch[-1].pending == 0
                if last >= until or (seems_over and await self._ends(last, until)):
                    return

    async def _ends(self, last: int, until: int) -> bool:
        """Whether the log has nothing from one sequence to another, by the leader's word."""
        following = await next_in_log(self._connection, last)
        return following is None or following.sequence > until

    async def _through_outages(self, after: LogPosition) -> AsyncGenerator[list[LogMessage], None]:
        """Empty batches too: there was nothing more at that time."""
        place = after
        read_on = resume_after_disconnect(
            self._connection,
            "the log",
            lambda: self._from_one_consumer(place),
            may_come_back=lambda: True,
        )
        async with aclosing(read_on) as batches:
            async for batch in batches:
                if batch:
                    last = batch[-1]
                    place = LogPosition(last.sequence, last.stored_ns, place.created)
                yield batch

    async def _from_one_consumer(
        self, after: LogPosition
    ) -> AsyncGenerator[list[LogMessage], None]:
        """The message at the place itself is looked at, too: it must be the one it was."""
        check_log(after, await self.extent())
        wanted = EphemeralConsumer(
            stream=LOG, purpose="feed", first=after.sequence, idle=_IDLE, is_deleted=True
        )
        async with pulling_anew(self._connection, wanted) as pull:
            if pull.pending == 0:
                yield []
            while True:
                batch = await self._next(pull)
                if not batch or batch[0].sequence != after.sequence:
                    yield batch
                    continue
                known = batch.pop(0)
                _check_place(after, known)
                if batch or known.pending == 0:
                    yield batch

    async def _next(self, pull: PullConsumer) -> list[LogMessage]:
        """The next messages; none of them when there are no more for now."""
        batch: list[LogMessage] = []
        while not batch:
            if pull.owed <= _PULL // 2:
                await pull.ask(_PULL, wait=True, most_bytes=self._most_bytes)
            if self._gather(await pull.next(), pull, batch) is End.NOTHING_MORE:
                break
        return batch

    def _gather(
        self, first: Delivered | End, pull: PullConsumer, batch: list[LogMessage]
    ) -> Literal[End.NOTHING_MORE] | None:
        """This one, and those that have arrived as well."""
        came: Delivered | End | None = first
        while came is not None:
            if came is End.NOTHING_MORE:
                return came
            if not isinstance(came, End):
                batch.append(log_message(*came))
            if len(batch) >= self._most:
                break
            came = pull.next_arrived()
        return None


def check_log(after: LogPosition, log: LogExtent) -> None:
    """Raises LogReplaced when the place cannot be in this log."""
    if after.created is not None and after.created != log.created:
        raise LogReplaced(f"the log was made at {log.created}, not at {after.created}")
    if after.sequence > log.last_sequence:
        raise LogReplaced(f"the log ends at {log.last_sequence}, before {after.sequence}")


def _check_place(after: LogPosition, message: LogMessage) -> None:
    if after.stored_ns and message.stored_ns != after.stored_ns:
        raise LogReplaced(f"the log has another message at {after.sequence} than it had")


def log_message(message: Message, info: DeliveryInfo) -> LogMessage:
    return LogMessage(
        message.subject,
        info.stream_sequence,
        info.stored_ns,
        info.pending,
        message.data,
        message.block,
    )
