"""Run everything that is in a service's queues, until nothing is left."""

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

# Core copies of events say when to look; one may come before its event is in the log.
_LOOK: Final = 0.02
_SHOWN: Final = 10


@dataclass(frozen=True, slots=True)
class Drained:
    """`jobs` are those that ended meanwhile, in that order; `left` those that nobody handles."""

    jobs: tuple[Job, ...]
    left: tuple[Job, ...]
    events: tuple[Event, ...]

    def in_state(self, state: JobState | str) -> list[Job]:
        return [job for job in self.jobs if job.state == state]


class NotDrained(AssertionError):
    def __init__(self, seconds: float, live: Iterable[Job]) -> None:
        self.live = tuple(live)
        lines = [f"after {seconds:g} s {len(self.live)} jobs are not over:"]
        lines += [_described(job) for job in self.live[:_SHOWN]]
        super().__init__("\n".join(lines))


async def drain(service: Service[Any], *, delays: bool = False, timeout: float = 30.0) -> Drained:
    """Until every job of the queues that are handled is over, those made meanwhile included.

    A service that is connected without workers gets some for as long as this takes; their retries
    do not wait, unless with `delays`. Workers that run already go on as they are.
    """
    __tracebackhide__ = True
    runtime = service.jobs.runtime
    live = runtime.connected
    log = ServiceLog(live.connection, service.name)
    await log.read_on()
    happened: list[Entry] = []
    try:
        if _live(log, runtime):
            async with asyncio.timeout(timeout), _working(runtime, delays=delays):
                async for entries in _until_over(log, runtime):
                    happened += entries
    except TimeoutError:
        raise NotDrained(timeout, _live(log, runtime)) from None
    ended = {entry.event.job: log.jobs[entry.event.job] for entry in reversed(happened)}
    jobs = [job for job in reversed(ended.values()) if job.is_over]
    left = [job for job in log.jobs.values() if not job.is_over]
    return Drained(tuple(jobs), tuple(left), tuple(entry.event for entry in happened))


async def _until_over(log: ServiceLog, runtime: Runtime) -> AsyncIterator[list[Entry]]:
    connection, news = runtime.connected.connection, asyncio.Event()
    watched = subjects.of_service(runtime.service)
    subscription = await connection.subscribe(watched, lambda _: news.set())
    try:
        while _live(log, runtime):
            try:
                async with asyncio.timeout(_LOOK):
                    await news.wait()
            except TimeoutError:
                pass
            news.clear()
            yield await log.read_on()
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
    """With workers of our own, unless the service has its, or needs none."""
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
