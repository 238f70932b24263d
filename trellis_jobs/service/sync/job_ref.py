"""A job held by its id, with blocking methods; each runs the method of `JobRef` of that name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar

from trellis_jobs.errors import NotConnected

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from trellis_jobs.contract.declaration import JobType
    from trellis_jobs.model.events import Event
    from trellis_jobs.producer.job_ref import JobRef
    from trellis_jobs.producer.job_snapshot import JobSnapshot
    from trellis_jobs.service.runtime import Runtime
    from trellis_jobs.service.sync.bridge import Bridge

R_co = TypeVar("R_co", covariant=True)


class SyncJobRef(Generic[R_co]):
    """Belongs to no connection: it may be used in any thread, and in a process forked later."""

    def __init__(
        self, job_id: str, queue: JobType[Any, R_co], bridge: Bridge, *, since: int = 0
    ) -> None:
        self.id = job_id
        self._queue = queue
        self._bridge = bridge
        self._since = since

    def __repr__(self) -> str:
        return f"SyncJobRef({self._queue.name}/{self.id})"

    def get(self, *, reveal: bool = False) -> JobSnapshot[R_co]:
        """The job as it is now, with its whole history folded in; see `JobRef.get`."""
        return self._bridge.run(lambda runtime: self._on(runtime).get(reveal=reveal))

    def wait(self, timeout: float | None = None) -> R_co:
        """The result once there is one; any other end raises its own JobEnded (JobFailed, …).

        Ctrl-C ends the waiting, not the job.
        """
        return self._bridge.run(lambda runtime: self._on(runtime).wait(timeout))

    def cancel(self, reason: str | None = None) -> None:
        """End the job if it is not over; a running handler is told. Twice is no error."""
        self._bridge.run(lambda runtime: self._on(runtime).cancel(reason))

    def events(self, *, reveal: bool = False) -> list[Event]:
        """Every event so far, oldest first; see `JobRef.events`."""
        return self._bridge.run(lambda runtime: self._on(runtime).events(reveal=reveal))

    def watch(self, *, reveal: bool = False) -> Iterator[JobSnapshot[R_co]]:
        """The job after each of its events, from the first one until it is over.

        Raises NotConnected if the client is closed meanwhile, and in a process forked meanwhile.
        """

        async def begin(runtime: Runtime) -> tuple[Runtime, AsyncIterator[JobSnapshot[R_co]]]:
            return runtime, self._on(runtime).watch(reveal=reveal)

        async def advance(runtime: Runtime) -> JobSnapshot[R_co] | None:
            if runtime is not began_on:
                raise NotConnected(self._bridge.service)
            return await anext(seen, None)

        began_on, seen = self._bridge.run(begin)
        while (job := self._bridge.run(advance)) is not None:
            yield job

    def _on(self, runtime: Runtime) -> JobRef[R_co]:
        return runtime.ref(self._queue, self.id, since=self._since)
