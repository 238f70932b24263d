"""Runs jobs when they are created, without a server."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any, TypeVar

from trellis_jobs.errors import DeclarationError
from trellis_jobs.producer.submission import CreatedJob, Producer, Request
from trellis_jobs.scheduler.assemble import scheduler_parts
from trellis_jobs.service.jobs import Jobs
from trellis_jobs.service.runtime import Connected
from trellis_jobs.telemetry import Telemetry
from trellis_jobs.testing.memory_alarm_worker import MemoryAlarmWorker
from trellis_jobs.testing.memory_dependencies import MemoryDependencies, memory_dependencies
from trellis_jobs.testing.memory_janitor import MemoryJanitor
from trellis_jobs.testing.memory_worker import MemoryWorker
from trellis_jobs.testing.no_delays import without_delays

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Mapping, Sequence

    from trellis_jobs.errors import JobsError
    from trellis_jobs.jetstream.keys.coordinator import KeyCoordinator
    from trellis_jobs.service.runtime import Runtime
    from trellis_jobs.service.service import Service
    from trellis_jobs.testing.clock import Clock

J = TypeVar("J", bound=Jobs)


@asynccontextmanager
async def inline(service: Service[J], *, clock: Clock | None = None) -> AsyncIterator[Service[J]]:
    """Within this block, `create` and `create_many` return when their jobs are over or wait.

    Everything else is as with a server: the events and their order, results, exceptions, keys and
    their limits, `wait`, `get`, `events`, `watch`, `cancel`, `reschedule`, `run_now`. The
    differences: `concurrency` is not limited, and a job whose key is taken runs when the key is
    free. With a `clock`, delayed jobs, retries, snoozes, deadlines and schedules follow it. Without
    one, retries and snoozes are immediate, and delayed jobs wait until `run_now`.
    `service.connect()` does nothing, so an app that calls it at startup can be started here.
    """
    runtime = service.jobs.runtime
    if runtime.live is not None:
        raise DeclarationError(
            f"service {service.name!r} is already connected: enter `inline(service)` before you "
            "start the app that connects it"
        )
    with runtime.exclusive(), runtime.inlined(), _moved_by(clock, runtime):
        async with memory_dependencies(service.name, runtime.environment) as dependencies:
            runtime.live = await _connected(service, dependencies, clock)
            driven = nullcontext() if clock is None else clock.driving(dependencies.timers)
            try:
                async with runtime.resources.opened():
                    try:
                        with driven:
                            yield service
                    finally:
                        await dependencies.background.close()
            finally:
                runtime.live = None


@contextmanager
def _moved_by(clock: Clock | None, runtime: Runtime) -> Iterator[None]:
    """Takes the time of the service from the clock."""
    own = runtime.environment
    if clock is not None:
        runtime.environment = clock.in_environment(own)
    try:
        yield
    finally:
        runtime.environment = own


async def _connected(
    service: Service[Any], dependencies: MemoryDependencies, clock: Clock | None
) -> Connected:
    """Starts workers for the queues with a handler, and the scheduler."""
    workers = {
        handler.queue.name: MemoryWorker(
            without_delays(handler) if clock is None else handler, dependencies
        )
        for handler in service.jobs.runtime.handlers
    }
    for worker in workers.values():
        await worker.open()
    found = {name: dependencies.keys(queue) for name, queue in service.contract.queues.items()}
    keys = {name: of_queue for name, of_queue in found.items() if of_queue is not None}
    connection, events, alarms = dependencies.connection, dependencies.events, dependencies.alarms
    producer = InlineProducer(dependencies, keys, workers)
    scheduler = scheduler_parts(service.contract, dependencies.of_host(keys), producer, alarms)
    receiver = MemoryAlarmWorker(connection, scheduler.handlers, workers)
    dependencies.server.alarms.receive = receiver.receive
    await scheduler.declared.apply()
    if clock is not None:
        await MemoryJanitor(dependencies, keys, workers).open()
    return Connected(connection, events, keys, alarms, producer, None, asyncio.Event())


class InlineProducer(Producer):
    """Runs each job that it creates until it waits. A job without a handler stays pending."""

    def __init__(
        self,
        dependencies: MemoryDependencies,
        keys: Mapping[str, KeyCoordinator],
        workers: Mapping[str, MemoryWorker],
    ) -> None:
        super().__init__(
            dependencies.service,
            dependencies.events,
            keys,
            Telemetry(),
            dependencies.environment,
            dependencies.alarms,
        )
        self._workers = workers

    async def create(self, request: Request, since: float | None = None) -> CreatedJob:
        created = await super().create(request, since)
        await self._run_job(request, created)
        return created

    async def _create_in_batches(self, requests: Sequence[Request]) -> list[CreatedJob | JobsError]:
        answers = await super()._create_in_batches(requests)
        await asyncio.gather(
            *(
                self._run_job(request, answer)
                for request, answer in zip(requests, answers, strict=True)
                if isinstance(answer, CreatedJob)
            )
        )
        return answers

    async def _run_job(self, request: Request, created: CreatedJob) -> None:
        worker = self._workers.get(request.queue.name)
        if worker is not None:
            await worker.run(created.address)
