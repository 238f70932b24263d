"""One queue's work messages: the durable consumer, deliveries, and answers to them."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, assert_never

import orjson

from trellis_jobs.contract.topology import WORK, Config, nanoseconds, queue_consumer
from trellis_jobs.errors import (
    InfrastructureMismatch,
    InfrastructureMissing,
    NotPermitted,
    RequestRefused,
)
from trellis_jobs.jetstream import api
from trellis_jobs.jetstream.connection import Connection, ConnectionLost
from trellis_jobs.jetstream.delivery_info import read_reply
from trellis_jobs.jetstream.lease_keeper import IN_PROGRESS
from trellis_jobs.model import subjects
from trellis_jobs.model.attempts import work_identity
from trellis_jobs.model.events import Begun
from trellis_jobs.model.preflight import Delivered
from trellis_jobs.model.settlement import Ack, Answer, Nak, Silence, Term
from trellis_jobs.model.standing import Head
from trellis_jobs.wire import events as wire
from trellis_jobs.wire import headers as h
from trellis_jobs.wire.events import Undecodable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from nats.aio.msg import Msg
    from nats.aio.subscription import Subscription

    from trellis_jobs.contract.declaration import JobType
    from trellis_jobs.model.identity import JobAddress

log = logging.getLogger(__name__)

PULL_SECONDS: Final = 5.0
PULL_SLACK_SECONDS: Final = 2.0
_MUST_MATCH: Final = ("filter_subject", "ack_policy", "backoff", "deliver_subject")
_TUNABLE: Final = ("ack_wait", "max_deliver", "max_ack_pending")


class Delivery:
    """One delivery of a work message: the event that began the run, and the way to answer."""

    __slots__ = ("_connection", "begun", "delivered", "head", "job", "reply")

    def __init__(
        self, connection: Connection, reply: str, begun: Begun, delivered: Delivered, head: Head
    ) -> None:
        self._connection = connection
        self.reply = reply
        self.begun = begun
        self.job: JobAddress = begun.job
        self.delivered = delivered
        self.head = head

    async def answer(self, answer: Answer) -> None:
        """Tell JetStream. A lost answer means one more delivery, which finds the same log."""
        data = _answer_bytes(answer)
        if data is None:
            return
        try:
            await self._connection.publish(self.reply, data)
        except ConnectionLost as error:
            log.warning(
                "an answer to the work queue was lost; the job will be delivered once more",
                extra={"job": self.job.job_id, "error": str(error)},
            )

    async def renew(self) -> bool:
        """Ask for another ack_wait; False when the connection is down."""
        if not self._connection.is_up:
            return False
        try:
            await self._connection.publish(self.reply, IN_PROGRESS)
        except ConnectionLost:
            return False
        return True


def _answer_bytes(answer: Answer) -> bytes | None:
    match answer:
        case Ack():
            return b"+ACK"
        case Nak(delay):
            if delay <= timedelta():
                return b"-NAK"
            return b"-NAK " + orjson.dumps({"delay": nanoseconds(delay)})
        case Term(reason):
            return b"+TERM " + reason.encode()
        case Silence():
            return None
        case _:
            assert_never(answer)


@dataclass(slots=True)
class _Pull:
    """One request for deliveries; the server fills the oldest first."""

    owed: int
    deadline: float


class WorkQueue:
    """Asks for exactly as many deliveries as it is told there is room for.

    `receive` gets each delivery, and None when a pull ended with deliveries still owed.
    """

    def __init__(
        self,
        connection: Connection,
        service: str,
        queue: JobType[Any, Any],
        receive: Callable[[Delivery | None], None],
    ) -> None:
        self.ack_wait = queue.ack_wait
        self.malformed = 0
        self.owed = 0
        self._connection = connection
        self._receive = receive
        self._config = queue_consumer(service, queue)
        self._next = f"{api.PREFIX}.CONSUMER.MSG.NEXT.{WORK}.{self._config['name']}"
        self._inbox = connection.new_inbox()
        self._subscription: Subscription | None = None
        self._pulls: dict[str, _Pull] = {}
        self._asks = 0
        self._loop = asyncio.get_running_loop()

    async def open(self) -> None:
        """Ensure the consumer; its ack_wait is the one in force, whoever set it."""
        effective = await ensure_consumer(self._connection, self._config)
        self.ack_wait = timedelta(microseconds=effective["ack_wait"] / 1000)

    @property
    def is_listening(self) -> bool:
        return self._subscription is not None

    async def listen(self) -> None:
        if self._subscription is None:
            subject = f"{self._inbox}.*"
            self._subscription = await self._connection.subscribe(subject, self._take)

    async def deafen(self) -> None:
        """Without a listener the server drops what was asked for, so nothing comes any more.

        What it had sent by then is still received, and can be handed back.
        """
        subscription, self._subscription = self._subscription, None
        if subscription is not None:
            await self._connection.drain(subscription)
            self.forget_pulls()

    async def ask(self, count: int) -> None:
        self._asks += 1
        token = str(self._asks)
        self._pulls[token] = _Pull(count, self._loop.time() + PULL_SECONDS + PULL_SLACK_SECONDS)
        self.owed += count
        body = b'{"batch":%d,"expires":%d}' % (count, int(PULL_SECONDS * 1e9))
        await self._connection.publish(self._next, body, reply=f"{self._inbox}.{token}")

    async def backlog(self) -> int:
        """Messages nobody has been given yet."""
        info = await api.request(self._connection, f"CONSUMER.INFO.{WORK}.{self._config['name']}")
        return int(info["num_pending"])

    def forget_pulls(self) -> None:
        """After a reconnect: the server has dropped what the old connection asked for."""
        self._pulls.clear()
        self.owed = 0

    def forget_overdue_pulls(self) -> None:
        """A pull that neither delivered nor ended in time was lost on the way."""
        now = self._loop.time()
        for token in [token for token, pull in self._pulls.items() if pull.deadline <= now]:
            self._end_pull(token)

    def _take(self, message: Msg) -> None:
        headers = message.headers or {}
        if "Status" in headers:
            self._end_pull(message.subject.rsplit(".", 1)[-1])
            self._receive(None)
            return
        self._count_delivered()
        delivery = read_delivery(self._connection, message, headers)
        if isinstance(delivery, Delivery):
            self._receive(delivery)
        else:
            self._drop(message, delivery)

    def _end_pull(self, token: str) -> None:
        pull = self._pulls.pop(token, None)
        if pull is not None:
            self.owed -= pull.owed

    def _count_delivered(self) -> None:
        # A delivery keeps its stored subject, so it names no pull; the oldest is served first.
        for token, pull in self._pulls.items():
            pull.owed -= 1
            self.owed -= 1
            if pull.owed == 0:
                del self._pulls[token]
            return

    def _drop(self, message: Msg, reason: str) -> None:
        self.malformed += 1
        log.warning(
            "a work message that is no job was dropped",
            extra={"subject": message.subject, "reason": reason, "count": self.malformed},
        )
        answer = _answer_bytes(Term(reason))
        if answer is not None and message.reply:
            self._loop.create_task(self._connection.publish(message.reply, answer))


def read_delivery(
    connection: Connection, message: Msg, headers: Mapping[str, str]
) -> Delivery | str:
    """The delivery in a message, or why it is none."""
    info, parsed = read_reply(message.reply), subjects.parse(message.subject)
    sequence = h.source_sequence(headers)
    if info is None or not isinstance(parsed, subjects.WorkSubject):
        return "neither subject nor reply are those of a work message"
    if sequence is None:
        return "it does not say which event of the log it stems from"
    entry = wire.decode(message.data, expected=parsed.job, sequence=sequence)
    if isinstance(entry, Undecodable):
        return entry.reason
    if not isinstance(entry.event, Begun) or entry.standing is None:
        return f"a {entry.event.kind} event begins no run"
    delivered = Delivered(
        work_identity(info.stream_sequence, info.stored_ns), info.number, entry.standing.run
    )
    return Delivery(
        connection, message.reply, entry.event, delivered, Head(sequence, entry.standing)
    )


async def ensure_consumer(connection: Connection, desired: Config) -> Config:
    """Create the consumer, or attach to a compatible one; returns the settings in force.

    Goes by the filtered create API only: no stream-info, no legacy subjects (seed 003).
    Credentials that may not create attach to what an operator made, and leave it as it is.
    """
    name, call = desired["name"], f"CONSUMER.CREATE.{WORK}.{desired['name']}"
    call = f"{call}.{desired['filter_subject']}"
    may_create = True
    try:
        return await _create(connection, call, "create", desired)
    except NotPermitted:
        may_create = False
    except RequestRefused as refusal:
        _explain(name, refusal)
    found = await _existing(connection, name)
    _check_compatible(name, desired, found)
    tuned = {key: desired[key] for key in _TUNABLE if desired[key] != found.get(key)}
    if not tuned or not may_create:
        return found
    log.info("consumer settings updated", extra={"consumer": name, "settings": tuned})
    return await _create(connection, call, "update", {**found, **tuned})


def _explain(name: str, refusal: RequestRefused) -> None:
    """Raise what a refused create means, unless it only means that the consumer exists."""
    if refusal.code == api.STREAM_NOT_FOUND:
        raise InfrastructureMissing(f"stream {WORK}") from refusal
    if refusal.code in api.OVERLAPPING_CONSUMER:
        raise InfrastructureMismatch(
            f"stream {WORK}", [f"another consumer takes the work of {name}: {refusal.description}"]
        ) from refusal
    if refusal.code not in (api.CONSUMER_EXISTS, api.CONSUMER_NAME_IN_USE):
        raise refusal


async def _existing(connection: Connection, name: str) -> Config:
    try:
        info = await api.request(connection, f"CONSUMER.INFO.{WORK}.{name}")
    except RequestRefused as refusal:
        if refusal.code == api.STREAM_NOT_FOUND:
            raise InfrastructureMissing(f"stream {WORK}") from refusal
        if refusal.code == api.CONSUMER_NOT_FOUND:
            raise InfrastructureMissing(f"consumer {name} of {WORK}") from refusal
        raise
    config: Config = info["config"]
    return config


async def _create(connection: Connection, call: str, action: str, config: Config) -> Config:
    body = {"stream_name": WORK, "action": action, "config": config}
    made: Config = (await api.request(connection, call, body))["config"]
    return made


def _check_compatible(name: str, desired: Config, found: Config) -> None:
    differences = [
        f"{key} should be {desired.get(key)!r}, is {found.get(key)!r}"
        for key in _MUST_MATCH
        if desired.get(key) != found.get(key)
    ]
    if differences:
        raise InfrastructureMismatch(f"consumer {name} of {WORK}", differences)
