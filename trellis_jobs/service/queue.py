"""One declared job on a service: handle it, create it, find it again."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

from trellis_jobs.key_errors import NotAdmitted
from trellis_jobs.service.deadlines import Deadline, moment_of
from trellis_jobs.service.outcomes import Accepted, Coalesced, Rejected, Replaced

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable
    from datetime import datetime

    from trellis_jobs.contract.declaration import JobType
    from trellis_jobs.producer.job_ref import JobRef
    from trellis_jobs.service.runtime import Runtime
    from trellis_jobs.worker.active_job import ActiveJob

P = TypeVar("P")
R = TypeVar("R")


class Queue(Generic[P, R]):
    __slots__ = ("runtime", "type")

    def __init__(self, declared: JobType[P, R], runtime: Runtime) -> None:
        self.type = declared
        self.runtime = runtime

    @overload
    def handle(
        self, handler: Callable[[ActiveJob[P]], Coroutine[Any, Any, R]], /
    ) -> Callable[[ActiveJob[P]], Coroutine[Any, Any, R]]: ...
    @overload
    def handle(self, handler: Callable[[ActiveJob[P]], R], /) -> Callable[[ActiveJob[P]], R]: ...
    def handle(self, handler: Callable[[ActiveJob[P]], Any], /) -> Callable[[ActiveJob[P]], Any]:
        """Decorate the one function that does this queue's work, async or (in a thread) sync."""
        self.runtime.register(self.type, handler)
        return handler

    async def create(
        self,
        payload: P,
        *,
        job_id: str | None = None,
        deadline: Deadline | None = None,
    ) -> JobRef[R]:
        """Returns once the job is in the log.

        `deadline`: a moment (datetime), or how long from now (seconds or timedelta). A job whose
        moment has passed already expires without having run.
        A queue with keys may let no new job in: then this raises KeyBusy or QueueFull.
        """
        return await self.runtime.create(
            self.type, payload, job_id=job_id, deadline=self._moment(deadline)
        )

    async def submit(
        self,
        payload: P,
        *,
        job_id: str | None = None,
        deadline: Deadline | None = None,
    ) -> Accepted[JobRef[R]] | Replaced[JobRef[R]] | Coalesced[JobRef[R]] | Rejected:
        """Like create, but tells what the queue's policy made of it instead of raising."""
        try:
            return await self.runtime.submit(
                self.type, payload, job_id=job_id, deadline=self._moment(deadline)
            )
        except NotAdmitted as refusal:
            if refusal.coalesced:
                return Coalesced(self.ref(refusal.existing_job_id), refusal.key)
            return Rejected(**asdict(refusal.full))

    async def create_many(
        self, payloads: Iterable[P], *, deadline: Deadline | None = None
    ) -> list[JobRef[R]]:
        """One job per payload, in order, pipelined; all payloads are checked before any is sent."""
        return await self.runtime.create_many(self.type, payloads, deadline=self._moment(deadline))

    def ref(self, job_id: str) -> JobRef[R]:
        """A job created earlier, perhaps by another process, by its id."""
        return self.runtime.ref(self.type, job_id)

    def _moment(self, deadline: Deadline | None) -> datetime | None:
        return None if deadline is None else moment_of(deadline, self.runtime.now())
