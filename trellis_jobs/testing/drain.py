"""Runs all jobs in the queues of a service."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from trellis_jobs.jetstream.log.presence import Presence
from trellis_jobs.model import subjects
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
    from trellis_jobs.model.states import JobState
    from trellis_jobs.service.runtime import Runtime
    from trellis_jobs.service.service import Service

# A core copy of an event may arrive before the event is in the log, so the log is also polled.
_POLL_INTERVAL: Final = 0.02
_MAX_SHOWN: Final = 10


@dataclass(frozen=True, slots=True)
class Drained:
    """`jobs` ended during the drain, in this order. `left` are not over: they have no handler."""

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

    Starts workers for this time if the service is connected without. Their retries are immediate,
    unless `delays` is True. Workers that already run are not changed.
    """
    __tracebackhide__ = True
    runtime = service.jobs.runtime
    live = runtime.connected
    log = ServiceLog(live.connection, service.name)
    await log.read_new()
    entries_read: list[Entry] = []
    try:
        if _live(log, runtime):
            async with asyncio.timeout(timeout), _working(runtime, delays=delays):
                async for entries in _until_over(log, runtime):
                    entries_read += entries
    except TimeoutError:
        raise NotDrained(timeout, _live(log, runtime)) from None
    ended = {entry.event.job: log.jobs[entry.event.job] for entry in reversed(entries_read)}
    jobs = [job for job in reversed(ended.values()) if job.is_over]
    left = [job for job in log.jobs.values() if not job.is_over]
    return Drained(tuple(jobs), tuple(left), tuple(entry.event for entry in entries_read))


async def _until_over(log: ServiceLog, runtime: Runtime) -> AsyncIterator[list[Entry]]:
    connection, changed = runtime.connected.connection, asyncio.Event()
    watched = subjects.of_service(runtime.service)
    subscription = await connection.subscribe(watched, lambda _: changed.set())
    try:
        while _live(log, runtime):
            try:
                async with asyncio.timeout(_POLL_INTERVAL):
                    await changed.wait()
            except TimeoutError:
                pass
            changed.clear()
            yield await log.read_new()
    finally:
        await connection.unsubscribe(subscription)


def _live(log: ServiceLog, runtime: Runtime) -> list[Job]:
    return [
        job
        for address, job in log.jobs.items()
        if not job.is_over and address.job_type in runtime.handlers
    ]


@asynccontextmanager
async def _working(runtime: Runtime, *, delays: bool) -> AsyncIterator[None]:
    """Starts workers, unless the service has some or runs inline."""
    live = runtime.connected
    if live.host is not None or isinstance(live.producer, InlineProducer):
        yield
        return
    handlers = [handler if delays else without_delays(handler) for handler in runtime.handlers]
    dependencies = HostDependencies(
        live.connection,
        live.events,
        Presence(live.connection, live.events.features),
        Telemetry(),
        runtime.environment,
        live.keys,
    )
    host = WorkerHost(runtime.service, handlers, dependencies)
    async with runtime.resources.opened():
        await host.start()
        try:
            yield
        finally:
            await host.stop(grace=0)


def _described(job: Job) -> str:
    status = job.status
    due = f", due at {status.next_attempt_at}" if status.next_attempt_at else ""
    why = f": {job.why}" if job.why else ""
    tries = f"try {job.tries} of {job.max_tries}"
    return f"  {job.address.job_type} {job.id} is {job.state} ({tries}{due}){why}"
