"""The part of JetStream that one service needs for its log, keys, alarms and records, in memory.

It checks the guard of each message like the real server, so all code above it is the production
code: events, guards, reads, key states, alarms. It has no work queue and no second process, and
alarms come when a test moves its clock.
"""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from trellis_jobs.contract.topology import CONTROL, KEYS, LOG
from trellis_jobs.jetstream.client import api
from trellis_jobs.jetstream.client.connect_options import API_PREFIX
from trellis_jobs.jetstream.client.message import Message
from trellis_jobs.model import subjects
from trellis_jobs.model.events import EventKind
from trellis_jobs.model.keys.state import KEYS_BUCKET
from trellis_jobs.testing.memory_alarm_stream import MemoryAlarmStream
from trellis_jobs.testing.memory_stream import MemoryStream, Stored, matches
from trellis_jobs.wire import headers as h

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator, Mapping
    from datetime import datetime

    from trellis_jobs.testing.timers import Timers
    from trellis_jobs.worker.background_tasks import BackgroundTasks

_NOT_FOUND: Final = b"NATS/1.0 404 Message Not Found\r\n\r\n"
_ACKS: Final = "$JS.ACK."
_API: Final = f"{API_PREFIX}."


@dataclass(slots=True)
class _Consumer:
    """`waiting` is the inbox of an open pull, which still expects `outstanding` messages."""

    name: str
    stream: MemoryStream
    filter_subject: str
    position: int
    delivered: int = 0
    waiting: str | None = None
    outstanding: int = 0

    def pending(self) -> list[Stored]:
        return self.stream.pending(self.position, self.filter_subject)


class MemoryServer:
    """`receive` gets the messages of clients. A client is a function that delivers to it."""

    def __init__(
        self,
        service: str,
        *,
        now: Callable[[], datetime],
        timers: Timers,
        background: BackgroundTasks,
    ) -> None:
        self.clients: list[Callable[[str, Message], None]] = []
        self.alarms = MemoryAlarmStream(service, now=now, timers=timers)
        self._now = now
        self._background = background
        streams = (
            MemoryStream(LOG, subjects.ALL_EVENTS, now=now),
            MemoryStream(KEYS, f"$KV.{KEYS_BUCKET}.>", now=now, newest_only=True),
            MemoryStream(CONTROL, subjects.ALL_CONTROL, now=now, newest_only=True),
            self.alarms,
        )
        self._streams = {stream.name: stream for stream in streams}
        self._consumers: dict[str, _Consumer] = {}
        self._api: dict[str, Callable[[str, Message], None]] = {
            "DIRECT.GET.": self._get_direct,
            "STREAM.MSG.GET.": self._get,
            "STREAM.INFO.": self._info,
            "CONSUMER.CREATE.": self._create_consumer,
            "CONSUMER.DELETE.": self._delete_consumer,
            "CONSUMER.MSG.NEXT.": self._pull,
        }

    def receive(self, message: Message) -> None:
        subject = message.subject
        if subject.startswith(_API):
            self._call(subject.removeprefix(_API), message)
        elif subject.startswith(_ACKS):
            self._acknowledge(message)
        else:
            self._publish(message)

    def _call(self, call: str, message: Message) -> None:
        for prefix, answer in self._api.items():
            if call.startswith(prefix):
                answer(call.removeprefix(prefix), message)
                return
        refusal = {"code": 501, "description": "the in-memory server has no such request"}
        self._answer(message.reply, {"error": refusal})

    def _acknowledge(self, message: Message) -> None:
        if matches(message.subject, f"{_ACKS}{self.alarms.name}.>"):
            self.alarms.acknowledge(message.subject, message.data)

    def _publish(self, message: Message) -> None:
        """Sends subscribers a copy even if the stream refuses the message (design D22)."""
        for stream in self._streams.values():
            if stream.captures(message.subject):
                answer = stream.store(message.subject, message.data, message.headers)
                follow_up = None if "error" in answer else self._follow_up(message.subject)
                if follow_up is None:
                    self._answer(message.reply, answer)
                else:
                    self._background.spawn(self._answer_after(follow_up, message.reply, answer))
        self._deliver(message.subject, message)
        for consumer in self._consumers.values():
            self._feed(consumer)

    def _follow_up(self, subject: str) -> Coroutine[Any, Any, None] | None:
        """A job that was moved to the current time is released at once, as its alarm is due.

        The answer comes after that. So `run_now` returns when the job is over, as `create` does.
        """
        parsed = subjects.parse(subject) if subject.endswith(EventKind.SCHEDULED) else None
        if not isinstance(parsed, subjects.LifecycleSubject):
            return None
        return self.alarms.due_alarm(parsed.job)

    async def _answer_after(
        self, follow_up: Coroutine[Any, Any, None], reply: str, answer: dict[str, Any]
    ) -> None:
        try:
            await follow_up
        finally:
            self._answer(reply, answer)

    def _get_direct(self, called: str, message: Message) -> None:
        name, _, filter_subject = called.partition(".")
        newest = self._streams[name].newest(filter_subject)
        if newest is None:
            self._deliver(message.reply, Message(message.reply, block=_NOT_FOUND))
            return
        headers = {**newest.headers, "Nats-Stream": name, "Nats-Subject": newest.subject}
        headers |= {"Nats-Sequence": str(newest.sequence), "Nats-Time-Stamp": _text(newest.at)}
        self._deliver(message.reply, Message(message.reply, newest.data, block=h.block(headers)))

    def _get(self, name: str, message: Message) -> None:
        newest = self._streams[name].newest(json.loads(message.data)["last_by_subj"])
        if newest is None:
            refusal = {"code": 404, "err_code": api.MESSAGE_NOT_FOUND}
            self._answer(message.reply, {"error": refusal})
            return
        found = {
            "subject": newest.subject,
            "seq": newest.sequence,
            "time": _text(newest.at),
            "data": base64.b64encode(newest.data).decode(),
            "hdrs": base64.b64encode(h.block(newest.headers)).decode(),
        }
        self._answer(message.reply, {"message": found})

    def _info(self, name: str, message: Message) -> None:
        stream, query = self._streams[name], json.loads(message.data or b"{}")
        listed = stream.subjects(query.get("subjects_filter", ">"))
        state = {"last_seq": len(stream.messages), "subjects": listed}
        self._answer(message.reply, {"state": state, "ts": _text(self._now()), "created": ""})

    def _create_consumer(self, called: str, message: Message) -> None:
        stream, name, filter_subject = called.split(".", 2)
        first = json.loads(message.data)["config"].get("opt_start_seq", 1)
        consumer = _Consumer(name, self._streams[stream], filter_subject, first - 1)
        self._consumers[name] = consumer
        self._answer(message.reply, {"name": name, "num_pending": len(consumer.pending())})

    def _delete_consumer(self, called: str, message: Message) -> None:
        deleted = self._consumers.pop(called.partition(".")[2], None)
        self._answer(message.reply, {"success": deleted is not None})

    def _pull(self, called: str, message: Message) -> None:
        consumer = self._consumers[called.partition(".")[2]]
        request, inbox = json.loads(message.data), message.reply
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
            numbers = f"1.{stored.sequence}.{consumer.delivered}.{stored.stored_ns}"
            reply = f"{_ACKS}{LOG}.{consumer.name}.{numbers}.{len(pending) - number}"
            block = h.block(stored.headers) if stored.headers else b""
            yield Message(stored.subject, stored.data, reply, block)

    def _answer(self, reply: str, answer: Mapping[str, Any]) -> None:
        if reply:
            self._deliver(reply, Message(reply, json.dumps(answer).encode()))

    def _deliver(self, to: str, message: Message) -> None:
        for client in self.clients:
            client(to, message)


def _text(moment: datetime) -> str:
    return moment.isoformat().replace("+00:00", "Z")
