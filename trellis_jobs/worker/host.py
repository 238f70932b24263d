"""Starts, pauses, resumes and stops all queue workers of one process."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from typing import TYPE_CHECKING, Any, Final

from trellis_jobs.jetstream.work.lease_keeper import RENEWALS_PER_LEASE, LeaseKeeper
from trellis_jobs.model.worker_record import QueueSlots, WorkerProfile, WorkerStatus
from trellis_jobs.model.worker_states import WorkerState, follow
from trellis_jobs.worker.background_tasks import BackgroundTasks
from trellis_jobs.worker.heartbeat_sender import (
    BEATS_PER_LEASE,
    HeartbeatSender,
    library_version,
)
from trellis_jobs.worker.identity import WorkerIdentity
from trellis_jobs.worker.loop_watch import LoopWatch
from trellis_jobs.worker.ordered_queue_worker import OrderedQueueWorker
from trellis_jobs.worker.queue_scheduler import QueueScheduler
from trellis_jobs.worker.queue_worker import QueueWorker
from trellis_jobs.worker.registration import WorkerRegistration
from trellis_jobs.worker.worker_context import WorkerContext

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from trellis_jobs.model.queue_order import SharedLimit
    from trellis_jobs.model.worker_record import DeclaredDead, Directive
    from trellis_jobs.worker.dependencies import HostDependencies, RegistrationOptions
    from trellis_jobs.worker.handlers import Handler

log = logging.getLogger(__name__)

# Seconds for interrupted handlers to clean up before their jobs are put back.
_INTERRUPT_TIMEOUT: Final = 2.0
_HAND_BACK_TIMEOUT: Final = 3.0
_DRAIN_POLL_INTERVAL: Final = 0.5
_IDLE_POLLS_TO_DRAIN: Final = 2
_RECHECK_INTERVAL: Final = 1.0
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
        shared_limit: SharedLimit | None = None,
    ) -> None:
        """`shared_limit` is for all queues together, in the order of the handlers."""
        options = dependencies.registration
        self.identity = WorkerIdentity(
            dependencies.environment.new_id, options.app_version if options else None
        )
        self.state = WorkerState.RUNNING
        self._service = service
        self._dependencies = dependencies
        self._background = BackgroundTasks()
        self._keeper: LeaseKeeper | None = None
        self._stopping: asyncio.Task[None] | None = None
        self._grace_over = asyncio.Event()
        self._shared_limit = shared_limit
        scheduler = None if shared_limit is None else QueueScheduler(shared_limit)
        self._workers = [self._queue_worker(each, concurrency, scheduler) for each in handlers]
        self._loop_watch = LoopWatch(self._workers, dependencies.telemetry)
        self._registration = self._registration_of(dependencies.registration)
        self._directed_stop: Callable[[], None] = lambda: None

    def _queue_worker(
        self, handler: Handler, concurrency: int | None, scheduler: QueueScheduler | None
    ) -> QueueWorker:
        arguments = (
            self._dependencies.connection,
            self._service,
            handler,
            concurrency or handler.queue.concurrency,
            self._dependencies.keys.get(handler.queue.name),
            self._dependencies.environment,
        )
        if scheduler is None:
            return QueueWorker(*arguments)
        worker = OrderedQueueWorker(*arguments)
        worker.join(scheduler)
        return worker

    @property
    def instance(self) -> str:
        return self.identity.instance

    async def start(self, directed_stop: Callable[[], None] = lambda: None) -> None:
        """Sets up every consumer before any worker starts, so that a bad one fails the start.

        `directed_stop` is called when an operator directs this worker to terminate.
        """
        self._directed_stop = directed_stop
        self._loop = asyncio.get_running_loop()
        leases = [await worker.open() for worker in self._workers]
        keeper = self._keeper = LeaseKeeper(
            self._dependencies.connection.open_another,
            self._dependencies.environment.now,
            self._dependencies.environment.monotonic,
            min([*(lease / RENEWALS_PER_LEASE for lease in leases), *self._slot_intervals()]),
            self._heartbeats(min([*leases, *self._silence_limit()])),
            background=[self._loop_watch.run],
        )
        if self._registration is not None:
            keeper.keep_record(self._registration)
            await self._registration.register()
        keeper.start()
        for worker, lease in zip(self._workers, leases, strict=True):
            worker.start(self._context(lease, keeper))
        if self._dependencies.alarms is not None:
            self._dependencies.alarms.start()
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
            self.identity,
            self._workers,
            self._dependencies.presence,
            self._dependencies.environment,
            self._loop_watch,
            shortest_lease,
        )

    def _silence_limit(self) -> list[float]:
        """Heartbeats are sent as often as beats: they show that a worker without beats lives."""
        if self._registration is None:
            return []
        return [self._registration.interval * BEATS_PER_LEASE]

    def _slot_intervals(self) -> list[float]:
        policies = [worker.handler.queue.key_policy for worker in self._workers]
        return [k.heartbeat_interval.total_seconds() for k in policies if k is not None]

    def _registration_of(self, options: RegistrationOptions | None) -> WorkerRegistration | None:
        if options is None:
            return None
        queues = [QueueSlots(w.handler.queue.name, w.concurrency) for w in self._workers]
        limit = self._shared_limit
        worked = {queue.job_type for queue in queues}
        profile = WorkerProfile(
            service=self._service,
            instance=self.instance,
            hostname=socket.gethostname(),
            pid=os.getpid(),
            started_at=self._dependencies.environment.now(),
            queues=tuple(queues),
            concurrency=limit.total if limit else sum(queue.concurrency for queue in queues),
            other_queues=tuple(name for name in options.declared_queues if name not in worked),
            version=library_version(),
            app_version=options.app_version,
            labels=options.labels,
            dead_after=options.dead_after,
        )
        monotonic = self._dependencies.environment.monotonic
        return WorkerRegistration(self, profile, options.records, self.identity, monotonic)

    def status(self) -> WorkerStatus:
        """What the next beat of this worker reports. Called by the lease thread."""
        active = {worker.handler.queue.name: tuple(worker.running) for worker in self._workers}
        held = {worker.handler.queue.name: worker.held_jobs for worker in self._workers}
        return WorkerStatus(self.state, active, held)

    def follow_directive(self, directive: Directive) -> None:
        """Called by the lease thread."""
        self._loop.call_soon_threadsafe(self._obey, directive)

    def handle_death(self, dead: DeclaredDead, instance: str) -> None:
        """Called by the lease thread, after the worker was declared dead while it was silent."""
        self._loop.call_soon_threadsafe(self._recheck_jobs, dead, instance)

    def _obey(self, directive: Directive) -> None:
        log.info(
            "operator %s directs this worker to be %s%s",
            directive.by or "(unnamed)",
            directive.state,
            f": {directive.reason}" if directive.reason else "",
            extra={"instance": self.instance, "by": directive.by, "reason": directive.reason},
        )
        match directive.state:
            case WorkerState.QUIET:
                self.quiet()
            case WorkerState.RUNNING:
                self.resume()
            case WorkerState.TERMINATE:
                self._directed_stop()

    def _recheck_jobs(self, dead: DeclaredDead, former: str) -> None:
        by = "" if dead.verdict is None else f" by {dead.verdict.by}"
        log.warning(
            "this worker was silent for too long and was declared dead%s as instance %s; it "
            "continues as instance %s, and the log decides which of its jobs it keeps",
            by,
            former,
            self.instance,
            extra={"instance": self.instance, "former": former},
        )
        self._background.spawn(self._recheck_until_done(former))

    async def _recheck_until_done(self, former: str) -> None:
        """Checks in the log, again and again, the attempts that began before the verdict."""
        while True:
            attempts = [
                running
                for worker in self._workers
                for running in list(worker.running.values())
                if running.attempt_context.attempt.instance == former
            ]
            if not attempts:
                return
            for running in attempts:
                running.hint_end()
            await asyncio.sleep(_RECHECK_INTERVAL)

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
        if self._dependencies.alarms is not None:
            await self._dependencies.alarms.stop()
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
            if self._registration is not None:
                self._registration.wake()
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
            self.identity,
            lease,
            None if dependencies.registration is None else dependencies.registration.records,
        )
