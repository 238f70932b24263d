"""The part of JetStream that one service needs for its log and its keys, in memory.

It checks the guard of each message like the real server, so all code above it is the production
code: events, guards, reads, key states. It has no work queue, no clock and no second process.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from trellis_jobs.contract.topology import KEYS, LOG
from trellis_jobs.jetstream.client import api
from trellis_jobs.jetstream.client.connect_options import API_PREFIX
from trellis_jobs.jetstream.client.message import Message
from trellis_jobs.model import subjects
from trellis_jobs.model.keys.state import KEYS_BUCKET
from trellis_jobs.wire import headers as h

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

_DIRECT_GET: Final = f"{API_PREFIX}.DIRECT.GET."
_CREATE: Final = f"{API_PREFIX}.CONSUMER.CREATE."
_NEXT: Final = f"{API_PREFIX}.CONSUMER.MSG.NEXT."
_NOT_FOUND: Final = b"NATS/1.0 404 Message Not Found\r\n\r\n"


@dataclass(frozen=True, slots=True)
class _Stored:
    sequence: int
    subject: str
    data: bytes
    headers: Mapping[str, str]


@dataclass(slots=True)
class _Stream:
    name: str
    filter_subject: str
    messages: list[_Stored] = field(default_factory=list)
    newest: dict[str, _Stored] = field(default_factory=dict)

    def store(self, subject: str, data: bytes, headers: Mapping[str, str]) -> dict[str, Any]:
        """Returns the server's answer: the sequence, or an error with the latest sequence."""
        guard = headers.get(h.EXPECTED_SEQUENCE)
        newest = self.newest.get(headers.get(h.EXPECTED_SUBJECT, subject))
        last = 0 if newest is None else newest.sequence
        if guard is not None and int(guard) != last:
            refusal = {
                "code": 400,
                "err_code": api.WRONG_LAST_SEQUENCE,
                "description": f"wrong last sequence: {last}",
            }
            return {"error": refusal}
        stored = _Stored(len(self.messages) + 1, subject, data, headers)
        self.messages.append(stored)
        # Clients read the latest message of one subject, or of all subjects of one job.
        self.newest[subject] = self.newest[f"{subject.rpartition('.')[0]}.>"] = stored
        return {"stream": self.name, "seq": stored.sequence}


@dataclass(slots=True)
class _Consumer:
    """`waiting` is the inbox of an open pull, which still expects `outstanding` messages."""

    name: str
    stream: _Stream
    filter_subject: str
    position: int
    delivered: int = 0
    waiting: str | None = None
    outstanding: int = 0

    def pending(self) -> list[_Stored]:
        later = self.stream.messages[self.position :]
        return [stored for stored in later if matches(stored.subject, self.filter_subject)]


class MemoryServer:
    """`receive` gets the client's messages. `deliver(to, message)` sends one to subscribers."""

    def __init__(self, deliver: Callable[[str, Message], None]) -> None:
        self._deliver = deliver
        self._streams = {
            LOG: _Stream(LOG, subjects.ALL_EVENTS),
            KEYS: _Stream(KEYS, f"$KV.{KEYS_BUCKET}.>"),
        }
        self._consumers: dict[str, _Consumer] = {}

    def receive(self, message: Message) -> None:
        subject = message.subject
        if subject.startswith(_DIRECT_GET):
            stream, _, filter_subject = subject.removeprefix(_DIRECT_GET).partition(".")
            self._get(self._streams[stream], filter_subject, message.reply)
        elif subject.startswith(_CREATE):
            stream, name, filter_subject = subject.removeprefix(_CREATE).split(".", 2)
            self._answer(
                message.reply, self._create_consumer(stream, name, filter_subject, message.data)
            )
        elif subject.startswith(_NEXT):
            self._pull(subject.rpartition(".")[2], json.loads(message.data), message.reply)
        else:
            self._publish(message)

    def _publish(self, message: Message) -> None:
        """Sends subscribers a copy even if the stream refuses the message (design D22)."""
        for stream in self._streams.values():
            if matches(message.subject, stream.filter_subject):
                answer = stream.store(message.subject, message.data, message.headers)
                self._answer(message.reply, answer)
        self._deliver(message.subject, message)
        for consumer in self._consumers.values():
            self._feed(consumer)

    def _get(self, stream: _Stream, filter_subject: str, reply: str) -> None:
        newest = stream.newest.get(filter_subject)
        if newest is None:
            self._deliver(reply, Message(reply, block=_NOT_FOUND))
            return
        headers = {**newest.headers, "Nats-Stream": stream.name, "Nats-Subject": newest.subject}
        headers["Nats-Sequence"] = str(newest.sequence)
        self._deliver(reply, Message(reply, newest.data, block=h.block(headers)))

    def _create_consumer(
        self, stream: str, name: str, filter_subject: str, data: bytes
    ) -> dict[str, Any]:
        first = json.loads(data)["config"].get("opt_start_seq", 1)
        consumer = _Consumer(name, self._streams[stream], filter_subject, first - 1)
        self._consumers[name] = consumer
        return {"name": name, "num_pending": len(consumer.pending())}

    def _pull(self, name: str, request: Mapping[str, Any], inbox: str) -> None:
        consumer = self._consumers[name]
        consumer.waiting, consumer.outstanding = inbox, request["batch"]
        self._feed(consumer)
        if request.get("no_wait") and consumer.outstanding:
            consumer.waiting = None
            self._deliver(inbox, Message(inbox, block=_NOT_FOUND))

    def _feed(self, consumer: _Consumer) -> None:
        if consumer.waiting is None:
            return
        for message in self._deliveries(consumer):
            self._deliver(consumer.waiting, message)
        if consumer.outstanding == 0:
            consumer.waiting = None
        else:
            consumer.position = len(consumer.stream.messages)

    def _deliveries(self, consumer: _Consumer) -> Iterator[Message]:
        pending = consumer.pending()
        for number, stored in enumerate(pending[: consumer.outstanding], 1):
            consumer.position, consumer.delivered = stored.sequence, consumer.delivered + 1
            consumer.outstanding -= 1
            numbers = f"1.{stored.sequence}.{consumer.delivered}.{time.time_ns()}"
            reply = f"$JS.ACK.{LOG}.{consumer.name}.{numbers}.{len(pending) - number}"
            block = h.block(dict(stored.headers)) if stored.headers else b""
            yield Message(stored.subject, stored.data, reply, block)

    def _answer(self, reply: str, answer: dict[str, Any]) -> None:
        if reply:
            self._deliver(reply, Message(reply, json.dumps(answer).encode()))


def matches(subject: str, filter_subject: str) -> bool:
    """Whether a subject matches a pattern with wildcards."""
    tokens, pattern = subject.split("."), filter_subject.split(".")
    if pattern[-1] == ">":
        pattern.pop()
        if len(tokens) <= len(pattern):
            return False
        tokens = tokens[: len(pattern)]
    return len(tokens) == len(pattern) and all(
        expected in {"*", token} for token, expected in zip(tokens, pattern, strict=True)
    )
