"""The alarms of a service, in memory: kept until their time, then handed out until acknowledged."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from trellis_jobs.contract.topology import DUE_CONSUMER, alarms_stream
from trellis_jobs.jetstream.client.delivery_info import read_reply
from trellis_jobs.jetstream.client.message import Message
from trellis_jobs.jetstream.work.lease_keeper import IN_PROGRESS
from trellis_jobs.model import subjects
from trellis_jobs.testing.memory_stream import MemoryStream, Stored, matches
from trellis_jobs.wire import headers as h

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping

    from trellis_jobs.model.identity import JobAddress
    from trellis_jobs.testing.timers import Timers

# So that an alarm that is handed back again and again does not keep the clock from moving.
_MIN_DELAY: Final = timedelta(milliseconds=1)
_SCHEDULING: Final = frozenset({h.SCHEDULE, h.SCHEDULE_TARGET, h.EXPECTED_SEQUENCE})


class MemoryAlarmStream(MemoryStream):
    """A stream with message schedules, and its consumer. `receive` gets each alarm that is due."""

    receive: Callable[[Message], Coroutine[Any, Any, None]] | None = None

    def __init__(self, service: str, *, now: Callable[[], datetime], timers: Timers) -> None:
        captured = subjects.alarms_of_service(service), subjects.due_of_service(service)
        super().__init__(alarms_stream(service), *captured, now=now)
        self._due_subjects = subjects.due_of_service(service)
        self._timers = timers
        # How often each alarm that is due was delivered, by its sequence, until it is acknowledged.
        self._deliveries: dict[int, int] = {}

    def add(self, subject: str, data: bytes, headers: Mapping[str, str]) -> Stored:
        """An alarm replaces the one that was set before under its subject."""
        stored = super().add(subject, data, headers)
        if h.SCHEDULE in headers:
            at = datetime.fromisoformat(headers[h.SCHEDULE].removeprefix("@at "))
            self._timers.set(at, _described(stored), partial(self._ring, stored))
        elif matches(subject, self._due_subjects):
            self._deliveries[stored.sequence] = 0
            self._timers.set(stored.at, _described(stored), partial(self._deliver, stored))
        return stored

    def due_alarm(self, job: JobAddress) -> Coroutine[Any, Any, None] | None:
        """Returns the delivery of a job's alarm, if it is due and someone receives alarms."""
        due = self.newest(subjects.due(subjects.alarm_of_job(job)))
        return None if due is None or self.receive is None else self._deliver(due)

    def acknowledge(self, reply: str, data: bytes) -> None:
        """A renewal changes nothing: no other process can get the alarm."""
        info = read_reply(reply)
        if info is None or data == IN_PROGRESS:
            return
        due = self.messages[info.stream_sequence - 1]
        if data.startswith(b"-NAK"):
            delay = timedelta(microseconds=_delay_ns(data) // 1000)
            at = self._now() + max(delay, _MIN_DELAY)
            self._timers.set(at, _described(due), partial(self._deliver, due))
        else:
            self._deliveries.pop(due.sequence, None)
            self.remove(due)

    async def _ring(self, alarm: Stored) -> None:
        """Publishes the alarm on its target, unless another one has replaced it."""
        if self.newest(alarm.subject) is alarm:
            self.remove(alarm)
            kept = {name: text for name, text in alarm.headers.items() if name not in _SCHEDULING}
            self.add(alarm.headers[h.SCHEDULE_TARGET], alarm.data, kept)

    async def _deliver(self, due: Stored) -> None:
        """A message that was acknowledged is not delivered again."""
        if self.receive is None or due.sequence not in self._deliveries:
            return
        number = self._deliveries[due.sequence] = self._deliveries[due.sequence] + 1
        numbers = f"{number}.{due.sequence}.{due.sequence}.{due.stored_ns}.0"
        reply = f"$JS.ACK.{self.name}.{DUE_CONSUMER}.{numbers}"
        await self.receive(Message(due.subject, due.data, reply, h.block(due.headers)))


def _delay_ns(nak: bytes) -> int:
    delay = nak.removeprefix(b"-NAK").strip()
    return int(json.loads(delay)["delay"]) if delay else 0


def _described(stored: Stored) -> str:
    return f"the alarm of {stored.subject.rpartition('.')[2]}"
