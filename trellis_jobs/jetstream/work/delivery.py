"""One delivery of a work message: its content, and how it is acknowledged."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Final, Protocol, assert_never

import orjson

from trellis_jobs.contract.topology import nanoseconds
from trellis_jobs.jetstream.client.connection import Connection, ConnectionLost
from trellis_jobs.jetstream.client.delivery_info import read_reply
from trellis_jobs.jetstream.work.lease_keeper import IN_PROGRESS, Lease
from trellis_jobs.model import subjects
from trellis_jobs.model.attempts import work_identity
from trellis_jobs.model.delivery_decision import DeliveryRef
from trellis_jobs.model.events import Begun
from trellis_jobs.model.job_status import Head
from trellis_jobs.model.settlement import Ack, Answer, Nak, NoAck, Term
from trellis_jobs.wire import events as wire
from trellis_jobs.wire import headers as h
from trellis_jobs.wire.events import Undecodable

if TYPE_CHECKING:
    from collections.abc import Callable

    from trellis_jobs.jetstream.client.message import Message
    from trellis_jobs.model.identity import JobAddress

log = logging.getLogger(__name__)

# The server counts nanoseconds in 64 bits, which hold 292 years. A job that is due later than this
# maximum is delayed once more when it is redelivered.
_MAX_DELAY: Final = timedelta(days=365)


class NakSender(Protocol):
    """Sends NAKs with a delay, see `delayed_naks.py`."""

    def add(self, delivery: Delivery, delay: timedelta) -> None: ...


@dataclass(frozen=True, slots=True)
class AckChannel:
    """How the deliveries of a queue are acknowledged.

    `naks` sends the NAKs that have a delay. Without it they are sent at once.
    """

    connection: Connection
    monotonic: Callable[[], float]
    naks: NakSender | None = None


class Delivery:
    """One delivery of a work message, with the event that began the run.

    `lease`: how long the delivery belongs to this worker, from its arrival on.
    """

    __slots__ = ("_channel", "begun", "delivered", "head", "job", "lease", "reply")

    def __init__(
        self, channel: AckChannel, lease: Lease, begun: Begun, delivered: DeliveryRef, head: Head
    ) -> None:
        self._channel = channel
        self.lease = lease
        self.reply = lease.reply
        self.begun = begun
        self.job: JobAddress = begun.job
        self.delivered = delivered
        self.head = head

    async def answer(self, answer: Answer) -> None:
        """Acknowledge to JetStream. A lost acknowledgement only causes one more delivery.

        A NAK with a delay may be sent some moments later, together with others.
        """
        if isinstance(answer, Nak) and self._is_nak_done(answer):
            return
        data = answer_bytes(answer)
        if data is None or self._channel.connection.publish_nowait(self.reply, data):
            return
        try:
            await self._channel.connection.publish(self.reply, data)
        except ConnectionLost as error:
            log.warning(
                "the acknowledgement of job %s was not sent, so it is delivered again: %s",
                self.job.job_id,
                error,
                extra={"job": self.job.job_id, "error": str(error)},
            )

    def nak_nowait(self, delay: timedelta) -> bool:
        """Returns False if the outbound buffer has no room.

        A late NAK is not sent: it would take the message from its current worker (design D7).
        """
        if self.lease.has_lapsed(self._channel.monotonic()):
            return True
        return self._channel.connection.publish_nowait(self.reply, _nak_bytes(delay))

    def _is_nak_done(self, nak: Nak) -> bool:
        """Returns False if the NAK is still to be sent."""
        naks = self._channel.naks
        if naks is not None and nak.delay > timedelta():
            naks.add(self, nak.delay)
            return True
        return self.nak_nowait(nak.delay)

    @property
    def is_connected(self) -> bool:
        """Whether an acknowledgement can be sent right now."""
        return self._channel.connection.is_connected

    async def renew(self) -> bool:
        """Extend the lease by another ack_wait; returns False when disconnected."""
        if not self._channel.connection.is_connected:
            return False
        try:
            await self._channel.connection.publish(self.reply, IN_PROGRESS)
        except ConnectionLost:
            return False
        return True


def answer_bytes(answer: Answer) -> bytes | None:
    match answer:
        case Ack():
            return b"+ACK"
        case Nak(delay):
            return _nak_bytes(delay)
        case Term(reason):
            return b"+TERM " + reason.encode()
        case NoAck():
            return None
        case _:
            assert_never(answer)


def _nak_bytes(delay: timedelta) -> bytes:
    if delay <= timedelta():
        return b"-NAK"
    return b"-NAK " + orjson.dumps({"delay": nanoseconds(min(delay, _MAX_DELAY))})


def read_delivery(channel: AckChannel, message: Message, ack_wait: float) -> Delivery | str:
    """Returns the delivery in a message, or the reason why it is invalid."""
    info, parsed = read_reply(message.reply), subjects.parse(message.subject)
    sequence = h.source_sequence(message.headers)
    if info is None or not isinstance(parsed, subjects.WorkSubject):
        return "its subject or reply is not that of a work message"
    if sequence is None:
        return "it does not name the event of the log that it was copied from"
    entry = wire.decode(message.data, expected=parsed.job, sequence=sequence)
    if isinstance(entry, Undecodable):
        return entry.reason
    if not isinstance(entry.event, Begun) or entry.status is None:
        return f"a {entry.event.kind} event does not begin a run"
    delivered = DeliveryRef(
        work_identity(info.stream_sequence, info.stored_ns), info.number, entry.status.run
    )
    lease = Lease(message.reply, ack_wait, channel.monotonic())
    return Delivery(channel, lease, entry.event, delivered, Head(sequence, entry.status))
