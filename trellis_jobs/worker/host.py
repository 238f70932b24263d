"""All queue workers of one process: start, quiet, resume, stop."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any, Final

from trellis_jobs.jetstream.work.lease_keeper import RENEWALS_PER_LEASE, LeaseKeeper
from trellis_jobs.model.worker_states import WorkerState, follow
from trellis_jobs.worker.background_tasks import Background
from trellis_jobs.worker.heartbeat_sender import HeartbeatSender
from trellis_jobs.worker.loop_watch import LoopWatch
from trellis_jobs.worker.queue_worker import QueueWorker
from trellis_jobs.worker.worker_context import WorkerContext

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trellis_jobs.worker.dependencies import HostDependencies
    from trellis_jobs.worker.handlers import Handler

log = logging.getLogger(__name__)

# What an interrupted handler gets to clean up before its job goes back without it.
_UNWIND: Final = 2.0
_HAND_BACK: Final = 3.0
_DRAIN_LOOK: Final = 0.5
_QUIET_LOOKS: Final = 2
_SAID: Final = {
    WorkerState.RUNNING: "worker is now running",
    WorkerState.QUIET: "worker is now quiet",
    WorkerState.TERMINATE: "worker is stopping",
}


class WorkerHost:
    def __init__(
        self,
        service: str,
        handlers: Sequence[Handler],
        doors: HostDependencies,
        *,
        concurrency: int | None = None,
    ) -> None:
        self.instance = doors.environment.new_id()
        self.state = WorkerState.RUNNING
        self._service = service
        self._doors = doors
        self._background = Background()
        self._keeper: LeaseKeeper | None = None
        self._stopping: asyncio.Task[None] | None = None
        self._grace_over = asyncio.Event()
        self._workers = [
            QueueWorker(
                doors.connection,
                service,
                handler,
                concurrency or handler.queue.concurrency,
                doors.keys.get(handler.queue.name),
                doors.environment.monotonic,
            )
            for handler in handlers
        ]
        self._loop_watch = LoopWatch(self._workers, doors.telemetry)

    async def start(self) -> None:
        """Every consumer is ensured before any work is taken, so a bad one fails the start."""
        leases = [await worker.open() for worker in self._workers]
        keeper = self._keeper = LeaseKeeper(
            self._doors.connection.open_another,
            self._doors.environment.now,
            self._doors.environment.monotonic,
            min([*(lease / RENEWALS_PER_LEASE for lease in leases), *self._slot_intervals()]),
            self._heartbeats(min(leases)),
            background=[self._loop_watch.run],
        )
        keeper.start()
        for worker, lease in zip(self._workers, leases, strict=True):
            worker.start(self._tools(lease, keeper))
        log.info(
            "worker started: instance %s of service %s works on %s",
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
            self._doors.presence,
            self._doors.environment,
            self._loop_watch,
            shortest_lease,
        )

    def _slot_intervals(self) -> list[float]:
        key_policies = [worker.handler.queue.key_policy for worker in self._workers]
        return [k.heartbeat_interval.total_seconds() for k in key_policies if k is not None]

    def quiet(self) -> None:
        if self._follow(WorkerState.QUIET):
            for worker in self._workers:
                worker.refuse()

    def resume(self) -> None:
        if self._follow(WorkerState.RUNNING):
            for worker in self._workers:
                worker.accept()

    async def stop(self, grace: float) -> None:
        """Finish what runs within the grace period, hand back the rest; once, whoever asks."""
        if self._stopping is None:
            self._stopping = asyncio.get_running_loop().create_task(self._stop(grace))
        elif grace <= 0:
            self._grace_over.set()
        await asyncio.shield(self._stopping)

    async def until_drained(self) -> None:
        """Nothing waits and nothing runs, at two looks in a row: a job takes a moment to arrive."""
        quiet_looks = 0
        while quiet_looks < _QUIET_LOOKS:
            await asyncio.sleep(_DRAIN_LOOK)
            busy = not all(worker.is_idle for worker in self._workers)
            waiting = sum([await worker.backlog() for worker in self._workers])
            quiet_looks = 0 if busy or waiting else quiet_looks + 1

    async def _stop(self, grace: float) -> None:
        self._follow(WorkerState.TERMINATE)
        for worker in self._workers:
            worker.refuse()
        await asyncio.gather(*(worker.sync_subscription() for worker in self._workers))
        await self._until_idle(grace)
        for worker in self._workers:
            worker.interrupt()
        await self._until_idle(_UNWIND)
        await self._hand_back()
        for worker in self._workers:
            await worker.close()
        await self._background.close()
        if self._keeper is not None:
            await self._keeper.stop()
        log.info("worker stopped: instance %s", self.instance, extra={"instance": self.instance})

    async def _hand_back(self) -> None:
        """A server that is not there takes nothing back: then the leases run out by themselves."""
        try:
            async with asyncio.timeout(_HAND_BACK):
                for worker in self._workers:
                    await worker.abandon()
        except TimeoutError:
            log.error(
                "the server did not take the unfinished jobs back within %g s: they start "
                "elsewhere when their leases end",
                _HAND_BACK,
            )

    async def _until_idle(self, seconds: float) -> None:
        """Or until somebody's patience ends; whatever still runs then runs on."""
        all_idle = asyncio.create_task(self._all_idle())
        impatient = asyncio.create_task(self._grace_over.wait())
        waiting: set[asyncio.Task[Any]] = {all_idle, impatient}
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
                _SAID[self.state],
                self.instance,
                extra={"instance": self.instance},
            )
        return self.state is directive

    def _tools(self, lease: float, keeper: LeaseKeeper) -> WorkerContext:
        doors = self._doors
        return WorkerContext(
            doors.events,
            doors.presence,
            doors.telemetry,
            doors.environment,
            self._background,
            keeper,
            self.instance,
            lease,
        )
