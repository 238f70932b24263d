"""Runs jobs when they are created, without a server."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, TypeVar

from trellis_jobs.errors import DeclarationError
from trellis_jobs.producer.submission import CreatedJob, Producer, Request
from trellis_jobs.service.jobs import Jobs
from trellis_jobs.service.runtime import Connected
from trellis_jobs.telemetry import Telemetry
from trellis_jobs.testing.memory_client import memory_connection
from trellis_jobs.testing.memory_worker import MemoryDependencies, MemoryWorker
from trellis_jobs.testing.no_delays import without_delays

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence

    from trellis_jobs.errors import JobsError
    from trellis_jobs.jetstream.keys.coordinator import KeyCoordinator
    from trellis_jobs.service.service import Service

J = TypeVar("J", bound=Jobs)


@asynccontextmanager
async def inline(service: Service[J]) -> AsyncIterator[Service[J]]:
    """Within this block, `create` and `create_many` return when their jobs are over.

    Everything else is as with a server: the events and their order, results, exceptions, keys and
    their limits, `wait`, `get`, `events`, `watch`, `cancel`. The differences: retries are
    immediate, `concurrency` is not limited, and a job whose key is taken runs when the key is free.
    `service.connect()` does nothing, so an app that calls it at startup can be started here.
    """
    runtime = service.jobs.runtime
    if runtime.live is not None:
        raise DeclarationError(
            f"service {service.name!r} is already connected: enter `inline(service)` before you "
            "start the app that connects it"
        )
    with runtime.exclusive(), runtime.inlined():
        async with memory_connection() as connection:
            dependencies = MemoryDependencies.over(connection, service.name, runtime.environment)
            workers = {
                h.queue.name: MemoryWorker(without_delays(h), dependencies)
                for h in runtime.handlers
            }
            for worker in workers.values():
                await worker.open()
            found = {
                name: dependencies.keys(queue) for name, queue in service.contract.queues.items()
            }
            keys = {name: of_queue for name, of_queue in found.items() if of_queue is not None}
            producer = InlineProducer(dependencies, keys, workers)
            runtime.live = Connected(
                connection, dependencies.events, keys, producer, None, asyncio.Event()
            )
            try:
                async with runtime.resources.opened():
                    try:
                        yield service
                    finally:
                        await dependencies.background.close()
            finally:
                runtime.live = None


class InlineProducer(Producer):
    """Runs each job that it creates. A job without a handler stays pending."""

    def __init__(
        self,
        dependencies: MemoryDependencies,
        keys: Mapping[str, KeyCoordinator],
        workers: Mapping[str, MemoryWorker],
    ) -> None:
        super().__init__(
            dependencies.service, dependencies.events, keys, Telemetry(), dependencies.environment
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
            await worker.run_until_over(created.address)
