"""A queue with blocking methods, which run those of `Queue`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar, Unpack

from trellis_jobs.service.outcomes import Accepted, Coalesced, Rejected, Replaced
from trellis_jobs.service.queue import Queue
from trellis_jobs.service.sync.job_ref import SyncJobRef

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from trellis_jobs.contract.declaration import JobType
    from trellis_jobs.producer.job_ref import JobRef
    from trellis_jobs.producer.run_times import Delay
    from trellis_jobs.producer.try_options import TryOptions
    from trellis_jobs.service.deadlines import Deadline
    from trellis_jobs.service.runtime import Runtime
    from trellis_jobs.service.sync.bridge import Bridge

P = TypeVar("P")
R = TypeVar("R")


class SyncQueue(Generic[P, R]):
    """Created by `client.queue(…)`. May be kept as a global variable."""

    def __init__(self, declared: JobType[P, R], bridge: Bridge) -> None:
        self.type = declared
        self._bridge = bridge

    def create(
        self,
        payload: P,
        *,
        job_id: str | None = None,
        deadline: Deadline | None = None,
        delay: Delay | None = None,
        run_at: datetime | None = None,
        **options: Unpack[TryOptions],
    ) -> SyncJobRef[R]:
        """Returns when the job is in the log; see `Queue.create`."""
        return self._sync(
            self._bridge.run(
                lambda runtime: self._on(runtime).create(
                    payload, job_id=job_id, deadline=deadline, delay=delay, run_at=run_at, **options
                )
            )
        )

    def submit(
        self,
        payload: P,
        *,
        job_id: str | None = None,
        deadline: Deadline | None = None,
        delay: Delay | None = None,
        run_at: datetime | None = None,
        **options: Unpack[TryOptions],
    ) -> Accepted[SyncJobRef[R]] | Replaced[SyncJobRef[R]] | Coalesced[SyncJobRef[R]] | Rejected:
        """Like create, but returns a refusal by the queue's policy instead of raising it."""
        answer = self._bridge.run(
            lambda runtime: self._on(runtime).submit(
                payload, job_id=job_id, deadline=deadline, delay=delay, run_at=run_at, **options
            )
        )
        match answer:
            case Accepted(ref):
                return Accepted(self._sync(ref))
            case Replaced(ref, replaced_job_id):
                return Replaced(self._sync(ref), replaced_job_id)
            case Coalesced(existing, key):
                return Coalesced(self._sync(existing), key)
            case Rejected():
                return answer

    def create_many(
        self,
        payloads: Iterable[P],
        *,
        deadline: Deadline | None = None,
        delay: Delay | None = None,
        run_at: datetime | None = None,
        **options: Unpack[TryOptions],
    ) -> list[SyncJobRef[R]]:
        """Creates one job per payload, in order. Checks all payloads before it sends any."""
        # A generator may block, so it must not run on the event loop.
        listed = list(payloads)
        created = self._bridge.run(
            lambda runtime: self._on(runtime).create_many(
                listed, deadline=deadline, delay=delay, run_at=run_at, **options
            )
        )
        return [self._sync(ref) for ref in created]

    def ref(self, job_id: str) -> SyncJobRef[R]:
        """Returns a reference to a job that any process created earlier."""
        return SyncJobRef(job_id, self.type, self._bridge)

    def _on(self, runtime: Runtime) -> Queue[P, R]:
        return Queue(self.type, runtime)

    def _sync(self, ref: JobRef[R]) -> SyncJobRef[R]:
        return SyncJobRef(ref.id, self.type, self._bridge, since=ref.since)
