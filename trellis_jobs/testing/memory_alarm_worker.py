"""Has the alarms of an in-memory server handled by the handlers of a worker process."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trellis_jobs.jetstream.alarms.due_alarms import DueAlarm
from trellis_jobs.jetstream.client.delivery_info import read_reply
from trellis_jobs.model import subjects
from trellis_jobs.model.identity import JobAddress
from trellis_jobs.model.settlement import Nak
from trellis_jobs.model.subjects import AlarmFamily

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import timedelta

    from trellis_jobs.jetstream.client.connection import Connection
    from trellis_jobs.jetstream.client.message import Message
    from trellis_jobs.scheduler.alarm_handlers import AlarmHandlers
    from trellis_jobs.testing.memory_worker import MemoryWorker


class MemoryAlarmWorker:
    """Handles one alarm after the other, and runs the job that an alarm has released."""

    def __init__(
        self,
        connection: Connection,
        handlers: AlarmHandlers,
        workers: Mapping[str, MemoryWorker],
    ) -> None:
        self._connection = connection
        self._handlers = handlers
        self._workers = workers

    async def receive(self, message: Message) -> None:
        info, address = read_reply(message.reply), subjects.due_address(message.subject)
        if info is None or address is None:
            raise ValueError(f"a message on {message.subject} is not an alarm")
        alarm, held = DueAlarm(self._connection, message.reply, address, (message, info)), _Held()
        answer = await self._handlers.handle(alarm, held.hold)
        if held.delay is not None and isinstance(answer, Nak):
            answer = Nak(held.delay)
        await alarm.answer(answer)
        worker = self._workers.get(address.job_type)
        if address.family is AlarmFamily.JOB and worker is not None:
            await worker.run(JobAddress(address.service, address.job_type, address.name))


class _Held:
    """Holds no alarm, because the clock stands still: it is delivered again after `delay`."""

    def __init__(self) -> None:
        self.delay: timedelta | None = None

    async def hold(self, delay: timedelta) -> bool:
        self.delay = delay
        return False
