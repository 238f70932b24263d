"""Starts, pauses, resumes and stops all queue workers of one process."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any, Final

from trellis_jobs.jetstream.work.lease_keeper import RENEWALS_PER_LEASE, LeaseKeeper
from trellis_jobs.model.worker_states import WorkerState, follow
from trellis_jobs.worker.background_tasks import BackgroundTasks
from trellis_jobs.worker.heartbeat_sender import HeartbeatSender
from trellis_jobs.worker.loop_watch import LoopWatch
from trellis_jobs.worker.queue_worker import QueueWorker
from trellis_jobs.worker.worker_context import WorkerContext

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trellis_jobs.worker.dependencies import HostDependencies
    from trellis_jobs.worker.handlers import Handler

log = logging.getLogger(__name__)

# Seconds for interrupted handlers to clean up before their jobs are put back.
_INTERRUPT_TIMEOUT: Final = 2.0
_HAND_BACK_TIMEOUT: Final = 3.0
_DRAIN_POLL_INTERVAL: Final = 0.5
_IDLE_POLLS_TO_DRAIN: Final = 2
_STATE_MESSAGES: Final = {
    WorkerState.RUNNING: "worker is now running",
    WorkerState.QUIET: "worker is now quiet",
    WorkerState.TERMINATE: "worker is stopping",
}


class WorkerHost:
    def __init__(
        self,
        service: str,
        handlers: Sequence[Handler],
        dependencies: HostDependencies,
        *,
        concurrency: int | None = None,
    ) -> None:
        self.instance = dependencies.environment.new_id()
        self.state = WorkerState.RUNNING
        self._service = service
        self._dependencies = dependencies
        self._background = BackgroundTasks()
        self._keeper: LeaseKeeper | None = None
        self._stopping: asyncio.Task[None] | None = None
        self._grace_over = asyncio.Event()
        self._workers = [
            QueueWorker(
                dependencies.connection,
                service,
                handler,
                concurrency or handler.queue.concurrency,
                dependencies.keys.get(handler.queue.name),
                dependencies.environment.monotonic,
            )
            for handler in handlers
        ]
        self._loop_watch = LoopWatch(self._workers, dependencies.telemetry)

    async def start(self) -> None:
        """Sets up every consumer before any worker starts, so that a bad one fails the start."""
        leases = [await worker.open() for worker in self._workers]
        keeper = self._keeper = LeaseKeeper(
            self._dependencies.connection.open_another,
            self._dependencies.environment.now,
            self._dependencies.environment.monotonic,
            min([*(lease / RENEWALS_PER_LEASE for lease in leases), *self._slot_intervals()]),
            self._heartbeats(min(leases)),
            background=[self._loop_watch.run],
        )
        keeper.start()
        for worker, lease in zip(self._workers, leases, strict=True):
            worker.start(self._context(lease, keeper))
        log.info(
            "worker started: instance %s of service %s, queues %s",
            self.instance,
            self._service,
            ", ".join(w.handler.queue.name for w in self._workers),
            extra={
                "service": self._service,
                "instance": self.instance,
                "queues": [w.handler.queue.name for w in self._workers],
            },
        )

    def _heartbeats(self, shortest_lease: float) -> HeartbeatSender:
        return HeartbeatSender(
            self._service,
            self.instance,
            self._workers,
            self._dependencies.presence,
            self._dependencies.environment,
            self._loop_watch,
            shortest_lease,
        )

    def _slot_intervals(self) -> list[float]:
        policies = [worker.handler.queue.key_policy for worker in self._workers]
        return [k.heartbeat_interval.total_seconds() for k in policies if k is not None]

    def quiet(self) -> None:
        if self._follow(WorkerState.QUIET):
            for worker in self._workers:
                worker.stop_accepting()

    def resume(self) -> None:
        if self._follow(WorkerState.RUNNING):
            for worker in self._workers:
                worker.start_accepting()

    async def stop(self, grace: float) -> None:
        """Lets jobs finish within the grace period and puts the rest back.

        Further calls wait for the first one. With a grace of 0 they end its grace period.
        """
        if self._stopping is None:
            self._stopping = asyncio.get_running_loop().create_task(self._stop(grace))
        elif grace <= 0:
            self._grace_over.set()
        await asyncio.shield(self._stopping)

    async def until_drained(self) -> None:
        """Returns after two polls in a row without a waiting or running job.

        One poll is not enough: a new job takes a moment to reach the work queue.
        """
        idle_polls = 0
        while idle_polls < _IDLE_POLLS_TO_DRAIN:
            await asyncio.sleep(_DRAIN_POLL_INTERVAL)
            busy = not all(worker.is_idle for worker in self._workers)
            waiting = sum([await worker.backlog() for worker in self._workers])
            idle_polls = 0 if busy or waiting else idle_polls + 1

    async def _stop(self, grace: float) -> None:
        self._follow(WorkerState.TERMINATE)
        for worker in self._workers:
            worker.stop_accepting()
        await asyncio.gather(*(worker.sync_subscription() for worker in self._workers))
        await self._until_idle(grace)
        for worker in self._workers:
            worker.interrupt()
        await self._until_idle(_INTERRUPT_TIMEOUT)
        await self._hand_back()
        for worker in self._workers:
            await worker.close()
        await self._background.close()
        if self._keeper is not None:
            await self._keeper.stop()
        log.info("worker stopped: instance %s", self.instance, extra={"instance": self.instance})

    async def _hand_back(self) -> None:
        """Gives up when the server is away: then the leases expire and the jobs start elsewhere."""
        try:
            async with asyncio.timeout(_HAND_BACK_TIMEOUT):
                for worker in self._workers:
                    await worker.hand_back()
        except TimeoutError:
            log.error(
                "could not put the unfinished jobs back within %g s (is the server away?); they "
                "start elsewhere when their leases expire",
                _HAND_BACK_TIMEOUT,
            )

    async def _until_idle(self, seconds: float) -> None:
        """Waits until all workers are idle, the time is up, or the grace period was ended early."""
        all_idle = asyncio.create_task(self._all_idle())
        grace_over = asyncio.create_task(self._grace_over.wait())
        waiting: set[asyncio.Task[Any]] = {all_idle, grace_over}
        await asyncio.wait(waiting, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)

    async def _all_idle(self) -> None:
        for worker in self._workers:
            await worker.until_idle()

    def _follow(self, directive: WorkerState) -> bool:
        before, self.state = self.state, follow(self.state, directive)
        if self.state is not before:
            log.info(
                "%s: instance %s",
                _STATE_MESSAGES[self.state],
                self.instance,
                extra={"instance": self.instance},
            )
        return self.state is directive

    def _context(self, lease: float, keeper: LeaseKeeper) -> WorkerContext:
        dependencies = self._dependencies
        return WorkerContext(
            dependencies.events,
            dependencies.presence,
            dependencies.telemetry,
            dependencies.environment,
            self._background,
            keeper,
            self.instance,
            lease,
        )
