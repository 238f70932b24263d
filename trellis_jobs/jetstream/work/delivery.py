"""One delivery of a work message: its content, and how it is acknowledged."""

from __future__ import annotations

import logging
from datetime import timedelta
from typing import TYPE_CHECKING, Final, assert_never

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


class Delivery:
    """One delivery of a work message, with the event that began the run.

    `lease`: how long the delivery belongs to this worker, from its arrival on.
    """

    __slots__ = ("_connection", "_monotonic", "begun", "delivered", "head", "job", "lease", "reply")

    def __init__(
        self,
        connection: Connection,
        lease: Lease,
        begun: Begun,
        delivered: DeliveryRef,
        head: Head,
        monotonic: Callable[[], float],
    ) -> None:
        self._connection = connection
        self._monotonic = monotonic
        self.lease = lease
        self.reply = lease.reply
        self.begun = begun
        self.job: JobAddress = begun.job
        self.delivered = delivered
        self.head = head

    async def answer(self, answer: Answer) -> None:
        """Acknowledge to JetStream. A lost acknowledgement only causes one more delivery.

        A late NAK is not sent: it would take the message from its current worker (design D7).
        """
        data = answer_bytes(answer)
        if data is None or (isinstance(answer, Nak) and self.lease.has_lapsed(self._monotonic())):
            return
        if self._connection.publish_nowait(self.reply, data):
            return
        try:
            await self._connection.publish(self.reply, data)
        except ConnectionLost as error:
            log.warning(
                "the acknowledgement of job %s was not sent, so it is delivered again: %s",
                self.job.job_id,
                error,
                extra={"job": self.job.job_id, "error": str(error)},
            )

    @property
    def is_connected(self) -> bool:
        """Whether an acknowledgement can be sent right now."""
        return self._connection.is_connected

    async def renew(self) -> bool:
        """Extend the lease by another ack_wait; returns False when disconnected."""
        if not self._connection.is_connected:
            return False
        try:
            await self._connection.publish(self.reply, IN_PROGRESS)
        except ConnectionLost:
            return False
        return True


def answer_bytes(answer: Answer) -> bytes | None:
    match answer:
        case Ack():
            return b"+ACK"
        case Nak(delay):
            if delay <= timedelta():
                return b"-NAK"
            return b"-NAK " + orjson.dumps({"delay": nanoseconds(min(delay, _MAX_DELAY))})
        case Term(reason):
            return b"+TERM " + reason.encode()
        case NoAck():
            return None
        case _:
            assert_never(answer)


def read_delivery(
    connection: Connection, message: Message, ack_wait: float, monotonic: Callable[[], float]
) -> Delivery | str:
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
    lease, head = Lease(message.reply, ack_wait, monotonic()), Head(sequence, entry.status)
    return Delivery(connection, lease, entry.event, delivered, head, monotonic)
