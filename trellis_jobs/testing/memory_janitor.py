"""Ends jobs of an in-memory log whose deadline passes, as the admin runtime does."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from trellis_jobs.jetstream.log.decide_again import Appended
from trellis_jobs.jetstream.log.expiry import plan_expiry
from trellis_jobs.model import subjects
from trellis_jobs.model.events import Begun, Described, EventKind
from trellis_jobs.model.subjects import LifecycleSubject
from trellis_jobs.wire import events as wire
from trellis_jobs.wire.events import Undecodable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trellis_jobs.jetstream.client.message import Message
    from trellis_jobs.jetstream.keys.coordinator import KeyCoordinator
    from trellis_jobs.model.identity import JobAddress
    from trellis_jobs.testing.memory_dependencies import MemoryDependencies
    from trellis_jobs.testing.memory_worker import MemoryWorker

_TIMEOUT: Final = 30.0


class MemoryJanitor:
    """Sets a timer for the deadline of each job. The log decides when it fires."""

    def __init__(
        self,
        dependencies: MemoryDependencies,
        keys: Mapping[str, KeyCoordinator],
        workers: Mapping[str, MemoryWorker],
    ) -> None:
        self._dependencies = dependencies
        self._events = dependencies.events
        self._keys = keys
        self._workers = workers

    async def open(self) -> None:
        watched = subjects.of_service(self._dependencies.service)
        await self._dependencies.connection.subscribe(watched, self._receive)

    def _receive(self, message: Message) -> None:
        """A copy of an event may be of one that the log refused: then the timer finds nothing."""
        parsed = subjects.parse(message.subject)
        if not isinstance(parsed, LifecycleSubject):
            return
        decoded = wire.decode(message.data, expected=parsed.job, sequence=0)
        if isinstance(decoded, Undecodable) or not isinstance(decoded.event, Described):
            return
        deadline = decoded.event.deadline
        if deadline is not None:
            expire = partial(self._expire, parsed.job)
            self._dependencies.timers.set(deadline, f"the deadline of {parsed.job.job_id}", expire)

    async def _expire(self, job: JobAddress) -> None:
        """A worker ends a job that waits for its key itself."""
        worker = self._workers.get(job.job_type)
        if worker is not None:
            await worker.end_overdue(job)
        latest = await self._events.latest(job)
        if latest is None:
            return
        now = self._dependencies.environment.now()
        ended = await self._events.append_planned(
            job, latest, lambda latest: plan_expiry(job, latest, now), timeout=_TIMEOUT
        )
        if isinstance(ended, Appended):
            await self._leave_key(job)

    async def _leave_key(self, job: JobAddress) -> None:
        """Removes a job that waited. The worker of a running job releases its slot."""
        keys = self._keys.get(job.job_type)
        entry = None if keys is None else await self._events.last(job, EventKind.CREATED)
        if keys is not None and entry is not None and isinstance(entry.event, Begun):
            await keys.withdraw(keys.key_of(entry.event), job.job_id)
