"""Receives the alarms of a service in each of its worker processes, and has them handled.

An alarm is delivered to one process. If that process dies, another one gets it after its lease.
Without the stream of alarms the worker runs jobs as before, and looks for the stream now and then.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import aclosing
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from trellis_jobs.errors import InfrastructureError, JetStreamNotReady, NotConfirmed
from trellis_jobs.jetstream.client.connection import ConnectionLost
from trellis_jobs.model.retry import DoublingDelay

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from trellis_jobs.environment import Environment
    from trellis_jobs.jetstream.alarms.due_alarms import DueAlarm, DueAlarms
    from trellis_jobs.jetstream.client.connection import Connection
    from trellis_jobs.scheduler.alarm_handlers import AlarmHandlers

log = logging.getLogger(__name__)

# Alarms that a process handles at once, most of them waiting for a reply or for their moment.
_MAX_ALARMS: Final = 1_000
_RECONNECT_DELAY: Final = 0.25
# Between looks for a stream that does not exist, or that may not be read: up to 32 s.
_MISSING_DELAY: Final = DoublingDelay(timedelta(seconds=0.5), 5)
_STOP_TIMEOUT: Final = 2.0


class AlarmWorker:
    def __init__(
        self,
        connection: Connection,
        due: DueAlarms,
        handlers: AlarmHandlers,
        environment: Environment,
        prepare: Callable[[], Coroutine[Any, Any, None]],
    ) -> None:
        """`prepare` runs beside, once, when the worker starts."""
        self._connection = connection
        self._due = due
        self._handlers = handlers
        self._environment = environment
        self._prepare = prepare
        self._stopping = asyncio.Event()
        self._running: list[asyncio.Task[None]] = []
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._has_slot = asyncio.Event()
        self._is_missing = False

    def start(self) -> None:
        loop = asyncio.get_running_loop()
        self._running = [
            loop.create_task(self._keep_receiving()),
            loop.create_task(self._prepare()),
        ]

    async def stop(self) -> None:
        """Hands back the alarms that are held, and waits for those that are being handled.

        The pull ends first: otherwise the server would deliver them to this process again.
        """
        for task in self._running:
            task.cancel()
        await _end(self._running)
        self._stopping.set()
        await _end([*self._tasks.values()])

    async def _keep_receiving(self) -> None:
        failures = 0
        while not self._connection.is_closed:
            await self._connection.wait_until_connected()
            try:
                await self._due.open()
                failures = 0
                self._report_found()
                await self._receive()
            except (ConnectionLost, NotConfirmed, JetStreamNotReady):
                await asyncio.sleep(_RECONNECT_DELAY)
            except InfrastructureError as error:
                failures += 1
                self._report_missing(error)
                await self._pause(failures)
            except Exception:
                failures += 1
                log.exception("this worker could not receive alarms, and tries again")
                await self._pause(failures)

    async def _pause(self, failures: int) -> None:
        delay = _MISSING_DELAY.after(failures, self._environment.random())
        await asyncio.sleep(delay.total_seconds())

    async def _receive(self) -> None:
        async with aclosing(self._due.each(self._free_slots)) as alarms:
            async for alarm in alarms:
                # A redelivery of an alarm that this process still handles is ignored.
                self._environment.observe_stored(alarm.stored_at)
                if alarm.sequence not in self._tasks:
                    task = asyncio.create_task(self._handle(alarm))
                    self._tasks[alarm.sequence] = task

    async def _free_slots(self) -> int:
        while len(self._tasks) >= _MAX_ALARMS:
            self._has_slot.clear()
            await self._has_slot.wait()
        return _MAX_ALARMS - len(self._tasks)

    async def _handle(self, alarm: DueAlarm) -> None:
        try:
            await alarm.answer(await self._handlers.handle(alarm, self._hold))
        finally:
            del self._tasks[alarm.sequence]
            self._has_slot.set()

    async def _hold(self, delay: timedelta) -> bool:
        try:
            async with asyncio.timeout(delay.total_seconds()):
                await self._stopping.wait()
        except TimeoutError:
            return True
        return False

    def _report_missing(self, error: InfrastructureError) -> None:
        if not self._is_missing:
            log.warning(
                "this worker cannot receive alarms, so delayed jobs and schedules of the service "
                "wait for another one: %s",
                error,
                extra={"error": str(error)},
            )
        self._is_missing = True

    def _report_found(self) -> None:
        if self._is_missing:
            log.info("this worker receives alarms again")
        self._is_missing = False


async def _end(tasks: list[asyncio.Task[None]]) -> None:
    """Waits for the tasks, and cancels those that take too long."""
    if tasks:
        _, unfinished = await asyncio.wait(tasks, timeout=_STOP_TIMEOUT)
        for task in unfinished:
            task.cancel()
        await asyncio.gather(*unfinished, return_exceptions=True)
