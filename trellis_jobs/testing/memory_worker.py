"""Runs the jobs of an in-memory log with the worker's code, one delivery after the other."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from trellis_jobs.jetstream.log.end_notices import EndNotices
from trellis_jobs.jetstream.log.event_log import FOREVER
from trellis_jobs.jetstream.work.delivery import AckChannel, Delivery
from trellis_jobs.jetstream.work.lease_keeper import Lease
from trellis_jobs.model.attempts import work_identity
from trellis_jobs.model.delivery_decision import DeliveryRef
from trellis_jobs.model.events import Begun, EventKind
from trellis_jobs.model.job_status import Head
from trellis_jobs.model.states import JobState
from trellis_jobs.worker.attempt import AttemptRunner
from trellis_jobs.worker.claim import Claimer
from trellis_jobs.worker.claimed import Claimed
from trellis_jobs.worker.slot_acquirer import SlotAcquirer, WaitForKey

if TYPE_CHECKING:
    from datetime import datetime

    from trellis_jobs.model.identity import JobAddress
    from trellis_jobs.testing.memory_dependencies import MemoryDependencies
    from trellis_jobs.worker.handlers import Handler
    from trellis_jobs.worker.running_job import RunningJob

_WAITING: Final = frozenset({JobState.PENDING, JobState.RETRY})


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
        # Jobs that wait for their key, oldest first, and those of them that a task tries to start.
        self._waiting: dict[JobAddress, None] = {}
        self._starting: set[JobAddress] = set()
        # How often the message of a run was delivered.
        self._deliveries: dict[int, int] = {}

    async def open(self) -> None:
        await self._notices.open()

    async def run(self, job: JobAddress) -> None:
        """Runs the job until it is over or waits, and then jobs that waited for its key."""
        # A separate task, so that cancelling the handler does not cancel the creator of the job.
        await self._dependencies.timers.complete(self._run_with_waiting(job))

    async def end_overdue(self, job: JobAddress) -> None:
        """Ends a job that waits for its key, and whose deadline has passed."""
        await self._start_waiting(job)

    async def deliver(self, job: JobAddress, number: int) -> WaitForKey | None:
        """Delivers the job once, which starts at most one attempt."""
        delivery = await self._delivery(job, number)
        claimed = await self._claimer.claim(delivery)
        if isinstance(claimed, Claimed):
            await self._attempts.run(delivery, claimed, lambda: None)
        return claimed if isinstance(claimed, WaitForKey) else None

    async def _run_with_waiting(self, job: JobAddress) -> None:
        has_run = await self._run(job)
        if not has_run:
            self._waiting.setdefault(job)
        while has_run:
            has_run = any([await self._start_waiting(waiting) for waiting in list(self._waiting)])

    async def _start_waiting(self, job: JobAddress) -> bool:
        """Returns False if the job still waits for its key, or if another task has it."""
        if job not in self._waiting or job in self._starting:
            return False
        self._starting.add(job)
        try:
            if await self._run(job):
                self._waiting.pop(job, None)
                return True
        finally:
            self._starting.discard(job)
        return False

    async def _run(self, job: JobAddress) -> bool:
        """Returns False if the job waits for its key."""
        seen = 0
        while (head := await self._dependencies.events.head(job)) is not None:
            if head.status.state not in _WAITING or head.sequence == seen:
                break
            if self._waits_for_its_time(job, head.status.next_attempt_at):
                break
            seen, run = head.sequence, head.status.run
            number = self._deliveries.get(run, 0) + 1
            if await self.deliver(job, number) is not None:
                return False
            self._deliveries[run] = number
        return True

    def _waits_for_its_time(self, job: JobAddress, due: datetime | None) -> bool:
        if due is None or due <= self._dependencies.environment.now():
            return False
        what = f"the next try of job {job.job_id}"
        self._dependencies.timers.set(due, what, partial(self._run_with_waiting, job))
        return True

    async def _delivery(self, job: JobAddress, number: int) -> Delivery:
        entry = await self._dependencies.events.last(job, EventKind.CREATED)
        if entry is None or entry.status is None or not isinstance(entry.event, Begun):
            raise LookupError(f"the in-memory log has no job {job.job_id}")
        head = Head(entry.sequence, entry.status)
        delivered = DeliveryRef(work_identity(entry.sequence, 1), number, entry.status.run)
        connection = self._dependencies.connection
        channel = AckChannel(connection, self._dependencies.environment.monotonic)
        lease = Lease(connection.new_inbox(), FOREVER, channel.monotonic())
        return Delivery(channel, lease, entry.event, delivered, head)

    def _hint_end(self, job_id: str) -> None:
        if job_id in self.running:
            self.running[job_id].hint_end()
