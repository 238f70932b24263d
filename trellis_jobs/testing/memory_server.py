"""As much of JetStream as one service needs for its log and its keys, in memory.

It stores a message only if its guard holds, as the server does; so everything above it is the code
of production: the same events, guards, reads, key states. There is no work queue, no clock and no
second process here.
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
    captured: str
    messages: list[_Stored] = field(default_factory=list)
    newest: dict[str, _Stored] = field(default_factory=dict)

    def store(self, subject: str, data: bytes, headers: Mapping[str, str]) -> dict[str, Any]:
        """The server's answer: a sequence, or a refusal that names the newest one."""
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
        # Nobody asks for the newest of more than one subject, except of all those of one job.
        self.newest[subject] = self.newest[f"{subject.rpartition('.')[0]}.>"] = stored
        return {"stream": self.name, "seq": stored.sequence}


@dataclass(slots=True)
class _Reader:
    """A consumer: `waiting` is the inbox of a pull that waits for so many more."""

    name: str
    stream: _Stream
    wanted: str
    position: int
    delivered: int = 0
    waiting: str | None = None
    outstanding: int = 0

    def pending(self) -> list[_Stored]:
        later = self.stream.messages[self.position :]
        return [stored for stored in later if is_under(stored.subject, self.wanted)]


class MemoryServer:
    """`receive` is what the client sends; `deliver(to, message)` is for whoever listens to `to`."""

    def __init__(self, deliver: Callable[[str, Message], None]) -> None:
        self._deliver = deliver
        self._streams = {
            LOG: _Stream(LOG, subjects.ALL_EVENTS),
            KEYS: _Stream(KEYS, f"$KV.{KEYS_BUCKET}.>"),
        }
        self._readers: dict[str, _Reader] = {}

    def receive(self, message: Message) -> None:
        subject = message.subject
        if subject.startswith(_DIRECT_GET):
            stream, _, wanted = subject.removeprefix(_DIRECT_GET).partition(".")
            self._get(self._streams[stream], wanted, message.reply)
        elif subject.startswith(_CREATE):
            stream, name, wanted = subject.removeprefix(_CREATE).split(".", 2)
            self._answer(message.reply, self._make_reader(stream, name, wanted, message.data))
        elif subject.startswith(_NEXT):
            self._pull(subject.rpartition(".")[2], json.loads(message.data), message.reply)
        else:
            self._publish(message)

    def _publish(self, message: Message) -> None:
        """Subscribers get a copy whether the stream takes the message or not (design D22)."""
        for stream in self._streams.values():
            if is_under(message.subject, stream.captured):
                answer = stream.store(message.subject, message.data, message.headers)
                self._answer(message.reply, answer)
        self._deliver(message.subject, message)
        for reader in self._readers.values():
            self._feed(reader)

    def _get(self, stream: _Stream, wanted: str, reply: str) -> None:
        newest = stream.newest.get(wanted)
        if newest is None:
            self._deliver(reply, Message(reply, block=_NOT_FOUND))
            return
        said = {**newest.headers, "Nats-Stream": stream.name, "Nats-Subject": newest.subject}
        said["Nats-Sequence"] = str(newest.sequence)
        self._deliver(reply, Message(reply, newest.data, block=h.block(said)))

    def _make_reader(self, stream: str, name: str, wanted: str, data: bytes) -> dict[str, Any]:
        first = json.loads(data)["config"].get("opt_start_seq", 1)
        reader = _Reader(name, self._streams[stream], wanted, first - 1)
        self._readers[name] = reader
        return {"name": name, "num_pending": len(reader.pending())}

    def _pull(self, name: str, asked: Mapping[str, Any], inbox: str) -> None:
        reader = self._readers[name]
        reader.waiting, reader.outstanding = inbox, asked["batch"]
        self._feed(reader)
        if asked.get("no_wait") and reader.outstanding:
            reader.waiting = None
            self._deliver(inbox, Message(inbox, block=_NOT_FOUND))

    def _feed(self, reader: _Reader) -> None:
        if reader.waiting is None:
            return
        for message in self._deliveries(reader):
            self._deliver(reader.waiting, message)
        if reader.outstanding == 0:
            reader.waiting = None
        else:
            reader.position = len(reader.stream.messages)

    def _deliveries(self, reader: _Reader) -> Iterator[Message]:
        pending = reader.pending()
        for place, stored in enumerate(pending[: reader.outstanding], 1):
            reader.position, reader.delivered = stored.sequence, reader.delivered + 1
            reader.outstanding -= 1
            numbers = f"1.{stored.sequence}.{reader.delivered}.{time.time_ns()}"
            reply = f"$JS.ACK.{LOG}.{reader.name}.{numbers}.{len(pending) - place}"
            block = h.block(dict(stored.headers)) if stored.headers else b""
            yield Message(stored.subject, stored.data, reply, block)

    def _answer(self, reply: str, answer: dict[str, Any]) -> None:
        if reply:
            self._deliver(reply, Message(reply, json.dumps(answer).encode()))


def is_under(subject: str, wanted: str) -> bool:
    """Whether a subject is one of those that a subject with wildcards stands for."""
    tokens, pattern = subject.split("."), wanted.split(".")
    if pattern[-1] == ">":
        pattern.pop()
        if len(tokens) <= len(pattern):
            return False
        tokens = tokens[: len(pattern)]
    return len(tokens) == len(pattern) and all(
        expected in {"*", token} for token, expected in zip(tokens, pattern, strict=True)
    )
