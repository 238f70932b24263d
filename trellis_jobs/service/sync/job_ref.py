"""A reference to a job with blocking methods, which run those of `JobRef`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar

from trellis_jobs.errors import NotConnected

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from datetime import datetime

    from trellis_jobs.contract.declaration import JobType
    from trellis_jobs.model.events import Event
    from trellis_jobs.producer.job_ref import JobRef
    from trellis_jobs.producer.job_snapshot import JobSnapshot
    from trellis_jobs.producer.run_times import Delay
    from trellis_jobs.service.runtime import Runtime
    from trellis_jobs.service.sync.bridge import Bridge

R_co = TypeVar("R_co", covariant=True)


class SyncJobRef(Generic[R_co]):
    """May be used in any thread, and in a process that is forked later."""

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
        """Returns the job's current state; see `JobRef.get`."""
        return self._bridge.run(lambda runtime: self._on(runtime).get(reveal=reveal))

    def wait(self, timeout: float | None = None) -> R_co:
        """Waits for the result. A job that ends otherwise raises JobEnded (JobFailed, …).

        Ctrl-C ends the wait, not the job.
        """
        return self._bridge.run(lambda runtime: self._on(runtime).wait(timeout))

    def cancel(self, reason: str | None = None) -> None:
        """Cancels the job and its running handler. Cancelling a job twice is no error."""
        self._bridge.run(lambda runtime: self._on(runtime).cancel(reason))

    def reschedule(
        self,
        *,
        delay: Delay | None = None,
        run_at: datetime | None = None,
        reason: str | None = None,
    ) -> None:
        """Moves a job that waits to another time; see `JobRef.reschedule`."""
        self._bridge.run(
            lambda runtime: self._on(runtime).reschedule(delay=delay, run_at=run_at, reason=reason)
        )

    def run_now(self, reason: str | None = None) -> None:
        """Lets a job that waits for its time, or for its next try, run at once."""
        self._bridge.run(lambda runtime: self._on(runtime).run_now(reason))

    def events(self, *, reveal: bool = False) -> list[Event]:
        """Returns all events so far, oldest first; see `JobRef.events`."""
        return self._bridge.run(lambda runtime: self._on(runtime).events(reveal=reveal))

    def watch(self, *, reveal: bool = False) -> Iterator[JobSnapshot[R_co]]:
        """Yields the job after each of its events, from the first one until it is over.

        Raises NotConnected if the client is closed or the process forks in between.
        """

        async def start(runtime: Runtime) -> tuple[Runtime, AsyncIterator[JobSnapshot[R_co]]]:
            return runtime, self._on(runtime).watch(reveal=reveal)

        async def advance(runtime: Runtime) -> JobSnapshot[R_co] | None:
            if runtime is not first_runtime:
                raise NotConnected(self._bridge.service)
            return await anext(snapshots, None)

        first_runtime, snapshots = self._bridge.run(start)
        while (job := self._bridge.run(advance)) is not None:
            yield job

    def _on(self, runtime: Runtime) -> JobRef[R_co]:
        return runtime.ref(self._queue, self.id, since=self._since)
