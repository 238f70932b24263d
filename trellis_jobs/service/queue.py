"""One queue of a service: register its handler, create jobs, find them by id."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Generic, TypeVar, Unpack, overload

from trellis_jobs.errors import NotAdmitted
from trellis_jobs.producer.run_times import Delay, absolute_run_at
from trellis_jobs.service.deadlines import Deadline, absolute_deadline
from trellis_jobs.service.outcomes import Accepted, Coalesced, Rejected, Replaced

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable
    from datetime import datetime

    from trellis_jobs.contract.declaration import JobType
    from trellis_jobs.producer.job_ref import JobRef
    from trellis_jobs.producer.try_options import TryOptions
    from trellis_jobs.service.runtime import Runtime
    from trellis_jobs.service.schedules import QueueSchedules
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
        """Decorates the queue's only handler. A sync handler runs in a thread."""
        self.runtime.register(self.type, handler)
        return handler

    async def create(
        self,
        payload: P,
        *,
        job_id: str | None = None,
        deadline: Deadline | None = None,
        delay: Delay | None = None,
        run_at: datetime | None = None,
        **options: Unpack[TryOptions],
    ) -> JobRef[R]:
        """Returns when the job is in the log.

        `deadline` is a datetime, or seconds or a timedelta from now. A job whose deadline is in the
        past expires without running. `delay`, in seconds or as a timedelta, or `run_at`, a datetime
        with a time zone, is when the job may run; until then it is `scheduled`. `max_tries`,
        `timeout` and `visibility` replace those of the queue.
        Raises KeyBusy or QueueFull if the key of the job admits no new job.
        """
        return await self.runtime.create(
            self.type,
            payload,
            job_id=job_id,
            deadline=self._absolute(deadline),
            run_at=self._run_at(delay, run_at),
            **options,
        )

    async def submit(
        self,
        payload: P,
        *,
        job_id: str | None = None,
        deadline: Deadline | None = None,
        delay: Delay | None = None,
        run_at: datetime | None = None,
        **options: Unpack[TryOptions],
    ) -> Accepted[JobRef[R]] | Replaced[JobRef[R]] | Coalesced[JobRef[R]] | Rejected:
        """Like create, but returns a refusal by the queue's policy instead of raising it."""
        try:
            return await self.runtime.submit(
                self.type,
                payload,
                job_id=job_id,
                deadline=self._absolute(deadline),
                run_at=self._run_at(delay, run_at),
                **options,
            )
        except NotAdmitted as refusal:
            if refusal.coalesced:
                return Coalesced(self.ref(refusal.existing_job_id), refusal.key)
            return Rejected(**asdict(refusal.full))

    async def create_many(
        self,
        payloads: Iterable[P],
        *,
        deadline: Deadline | None = None,
        delay: Delay | None = None,
        run_at: datetime | None = None,
        **options: Unpack[TryOptions],
    ) -> list[JobRef[R]]:
        """Creates one job per payload, in order. Checks all payloads before it sends any."""
        return await self.runtime.create_many(
            self.type,
            payloads,
            deadline=self._absolute(deadline),
            run_at=self._run_at(delay, run_at),
            **options,
        )

    @property
    def schedules(self) -> QueueSchedules[P, R]:
        """The schedules of the queue, to be changed at run time."""
        from trellis_jobs.service.schedules import QueueSchedules  # noqa: PLC0415 - few need it

        return QueueSchedules(self.type, self.runtime)

    def ref(self, job_id: str) -> JobRef[R]:
        """Returns a reference to a job that any process created earlier."""
        return self.runtime.ref(self.type, job_id)

    def _absolute(self, deadline: Deadline | None) -> datetime | None:
        return None if deadline is None else absolute_deadline(deadline, self.runtime.now())

    def _run_at(self, delay: Delay | None, run_at: datetime | None) -> datetime | None:
        if delay is None and run_at is None:
            return None
        return absolute_run_at(delay, run_at, self.runtime.now())
