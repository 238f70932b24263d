"""Runs all jobs in the queues of a service."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from trellis_jobs.jetstream.log.presence import Presence
from trellis_jobs.model import subjects
from trellis_jobs.model.states import JobState
from trellis_jobs.scheduler.assemble import alarm_worker
from trellis_jobs.telemetry import Telemetry
from trellis_jobs.testing.inline import InlineProducer
from trellis_jobs.testing.no_delays import without_delays
from trellis_jobs.testing.service_log import ServiceLog
from trellis_jobs.worker.dependencies import HostDependencies
from trellis_jobs.worker.host import WorkerHost

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable

    from trellis_jobs.model.events import Event
    from trellis_jobs.model.job import Entry, Job
    from trellis_jobs.service.service import Service

# A core copy of an event may arrive before the event is in the log, so the log is also polled.
_POLL_INTERVAL: Final = 0.02
_MAX_SHOWN: Final = 10


@dataclass(frozen=True, slots=True)
class Drained:
    """`jobs` ended during the drain, in this order. `left` are not over.

    These have no handler, or wait for their time, which is `job.status.next_attempt_at`.
    """

    jobs: tuple[Job, ...]
    left: tuple[Job, ...]
    events: tuple[Event, ...]

    def in_state(self, state: JobState | str) -> list[Job]:
        return [job for job in self.jobs if job.state == state]


class NotDrained(AssertionError):
    def __init__(self, seconds: float, live: Iterable[Job]) -> None:
        self.live = tuple(live)
        jobs = "1 job is" if len(self.live) == 1 else f"{len(self.live)} jobs are"
        lines = [f"{jobs} not over after {seconds:g} s:"]
        lines += [_described(job) for job in self.live[:_MAX_SHOWN]]
        super().__init__("\n".join(lines))


async def drain(service: Service[Any], *, delays: bool = False, timeout: float = 30.0) -> Drained:
    """Waits until all jobs of queues with a handler are over, including new ones.

    Starts workers for this time if the service is connected without. Their retries and snoozes are
    immediate, and delayed jobs are left, unless `delays` is True. Workers that already run are not
    changed. Inline, nothing waits: jobs that wait for the clock are left.
    """
    __tracebackhide__ = True
    drained = _Drain(service, delays=delays)
    log = drained.log
    await log.read_new()
    entries_read: list[Entry] = []
    try:
        if drained.unfinished():
            async with asyncio.timeout(timeout), drained.working():
                async for entries in drained.until_over():
                    entries_read += entries
    except TimeoutError:
        raise NotDrained(timeout, drained.unfinished()) from None
    ended = {entry.event.job: log.jobs[entry.event.job] for entry in reversed(entries_read)}
    jobs = [job for job in reversed(ended.values()) if job.is_over]
    left = [job for job in log.jobs.values() if not job.is_over]
    return Drained(tuple(jobs), tuple(left), tuple(entry.event for entry in entries_read))


class _Drain:
    def __init__(self, service: Service[Any], *, delays: bool) -> None:
        self._contract = service.contract
        self._runtime = service.jobs.runtime
        self._live = self._runtime.connected
        self._is_inline = isinstance(self._live.producer, InlineProducer)
        self._delays = delays
        self.log = ServiceLog(self._live.connection, service.name)

    def unfinished(self) -> list[Job]:
        """The jobs that are waited for."""
        return [
            job
            for address, job in self.log.jobs.items()
            if not job.is_over
            and address.job_type in self._runtime.handlers
            and not self._is_left_waiting(job)
        ]

    def _is_left_waiting(self, job: Job) -> bool:
        """Inline, only the test moves the clock, or runs a delayed job."""
        if job.state is JobState.SCHEDULED:
            return self._is_inline or not self._delays
        due = job.status.next_attempt_at
        return self._is_inline and due is not None and due > self._runtime.now()

    async def until_over(self) -> AsyncIterator[list[Entry]]:
        connection, changed = self._live.connection, asyncio.Event()
        watched = subjects.of_service(self._runtime.service)
        subscription = await connection.subscribe(watched, lambda _: changed.set())
        try:
            while self.unfinished():
                try:
                    async with asyncio.timeout(_POLL_INTERVAL):
                        await changed.wait()
                except TimeoutError:
                    pass
                changed.clear()
                yield await self.log.read_new()
        finally:
            await connection.unsubscribe(subscription)

    @asynccontextmanager
    async def working(self) -> AsyncIterator[None]:
        """Starts workers, unless the service has some or runs inline."""
        if self._live.host is not None or self._is_inline:
            yield
            return
        host = self._host()
        async with self._runtime.resources.opened():
            await host.start()
            try:
                yield
            finally:
                await host.stop(grace=0)

    def _host(self) -> WorkerHost:
        runtime, live = self._runtime, self._live
        dependencies = HostDependencies(
            live.connection,
            live.events,
            Presence(live.connection, live.events.features),
            Telemetry(),
            runtime.environment,
            live.keys,
        )
        if not self._delays:
            handlers = [without_delays(handler) for handler in runtime.handlers]
            return WorkerHost(runtime.service, handlers, dependencies)
        alarms = alarm_worker(self._contract, dependencies, live.producer, live.alarms)
        return WorkerHost(
            runtime.service, list(runtime.handlers), replace(dependencies, alarms=alarms)
        )


def _described(job: Job) -> str:
    status = job.status
    due = f", due at {status.next_attempt_at}" if status.next_attempt_at else ""
    why = f": {job.why}" if job.why else ""
    tries = f"try {job.tries} of {job.max_tries}"
    return f"  {job.address.job_type} {job.id} is {job.state} ({tries}{due}){why}"
