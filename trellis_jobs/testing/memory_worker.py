"""Runs the jobs of an in-memory log with the worker's code, one delivery after the other."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from trellis_jobs.jetstream.keys.bucket import KeyBucket
from trellis_jobs.jetstream.keys.coordinator import KeyCoordinator
from trellis_jobs.jetstream.log.end_notices import EndNotices
from trellis_jobs.jetstream.log.event_log import FOREVER, EventLog
from trellis_jobs.jetstream.log.presence import Presence
from trellis_jobs.jetstream.work.delivery import Delivery
from trellis_jobs.jetstream.work.lease_keeper import Lease, LeaseKeeper
from trellis_jobs.model.attempts import work_identity
from trellis_jobs.model.delivery_decision import DeliveryRef
from trellis_jobs.model.events import Begun, EventKind
from trellis_jobs.model.job_status import Head
from trellis_jobs.telemetry import Telemetry
from trellis_jobs.testing.memory_client import FEATURES
from trellis_jobs.worker.attempt import AttemptRunner
from trellis_jobs.worker.background_tasks import BackgroundTasks
from trellis_jobs.worker.claim import Claimer
from trellis_jobs.worker.claimed import Claimed
from trellis_jobs.worker.identity import WorkerIdentity
from trellis_jobs.worker.slot_acquirer import SlotAcquirer, WaitForKey
from trellis_jobs.worker.worker_context import WorkerContext

if TYPE_CHECKING:
    from trellis_jobs.contract.declaration import JobType
    from trellis_jobs.environment import Environment
    from trellis_jobs.jetstream.client.connection import Connection
    from trellis_jobs.model.identity import JobAddress
    from trellis_jobs.worker.handlers import Handler
    from trellis_jobs.worker.running_job import RunningJob


@dataclass(frozen=True, slots=True)
class MemoryDependencies:
    """What a service needs to reach an in-memory log and its keys."""

    service: str
    connection: Connection
    events: EventLog
    bucket: KeyBucket
    environment: Environment
    background: BackgroundTasks

    @classmethod
    def over(
        cls, connection: Connection, service: str, environment: Environment
    ) -> MemoryDependencies:
        bucket = KeyBucket(connection, environment.now)
        events = EventLog(connection, FEATURES)
        return cls(service, connection, events, bucket, environment, BackgroundTasks())

    def keys(self, queue: JobType[Any, Any]) -> KeyCoordinator | None:
        if queue.key_policy is None:
            return None
        now = self.environment.now
        return KeyCoordinator(self.service, queue, queue.key_policy, self.bucket, self.events, now)

    def context(self, queue: JobType[Any, Any]) -> WorkerContext:
        environment, lease = self.environment, queue.ack_wait.total_seconds()
        # Never started: no other process can take a delivery or a slot.
        keeper = LeaseKeeper(
            self.connection.open_another, environment.now, environment.monotonic, lease
        )
        return WorkerContext(
            self.events,
            Presence(self.connection, FEATURES),
            Telemetry(),
            environment,
            self.background,
            keeper,
            WorkerIdentity(environment.new_id),
            lease,
        )


class MemoryWorker:
    """The worker of one queue. It has no concurrency limit: a handler may create jobs and wait."""

    def __init__(self, handler: Handler, dependencies: MemoryDependencies) -> None:
        queue, context, keys = (
            handler.queue,
            dependencies.context(handler.queue),
            dependencies.keys(handler.queue),
        )
        self.running: dict[str, RunningJob] = {}
        self._dependencies = dependencies
        self._claimer = Claimer(
            queue, context, self.running, None if keys is None else SlotAcquirer(keys, context)
        )
        self._attempts = AttemptRunner(handler, context, self.running)
        self._notices = EndNotices(
            dependencies.connection, dependencies.service, queue.name, self._hint_end
        )
        self._waiting: list[JobAddress] = []

    async def open(self) -> None:
        await self._notices.open()

    async def run_until_over(self, job: JobAddress) -> None:
        """Runs the job until it is over or waits for its key, and then jobs that waited for it."""
        done = asyncio.Event()

        async def work() -> None:
            try:
                await self._try_until_over(job)
                while self._waiting and await self._try_until_over(self._waiting.pop(0)):
                    pass
            finally:
                done.set()

        # A separate task, so that cancelling the handler does not cancel the creator of the job.
        self._dependencies.background.spawn(work())
        await done.wait()

    async def deliver(self, job: JobAddress, number: int) -> WaitForKey | None:
        """Delivers the job once, which starts at most one attempt."""
        delivery = await self._delivery(job, number)
        claimed = await self._claimer.claim(delivery)
        if isinstance(claimed, Claimed):
            await self._attempts.run(delivery, claimed, lambda: None)
        return claimed if isinstance(claimed, WaitForKey) else None

    async def _try_until_over(self, job: JobAddress) -> bool:
        """Returns False if the job waits for its key."""
        number, seen = 0, 0
        while (head := await self._dependencies.events.head(job)) is not None:
            if head.status.is_over or head.sequence == seen:
                break
            number, seen = number + 1, head.sequence
            if await self.deliver(job, number) is not None:
                self._waiting.append(job)
                return False
        return True

    async def _delivery(self, job: JobAddress, number: int) -> Delivery:
        entry = await self._dependencies.events.last(job, EventKind.CREATED)
        if entry is None or entry.status is None or not isinstance(entry.event, Begun):
            raise LookupError(f"the in-memory log has no job {job.job_id}")
        head = Head(entry.sequence, entry.status)
        delivered = DeliveryRef(work_identity(entry.sequence, 1), number, entry.status.run)
        connection = self._dependencies.connection
        monotonic = self._dependencies.environment.monotonic
        lease = Lease(connection.new_inbox(), FOREVER, monotonic())
        return Delivery(connection, lease, entry.event, delivered, head, monotonic)

    def _hint_end(self, job_id: str) -> None:
        if job_id in self.running:
            self.running[job_id].hint_end()
