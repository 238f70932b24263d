"""A reference to a job by its id: read it, wait for it, cancel it, follow it."""

from __future__ import annotations

import asyncio
import logging
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from trellis_jobs.errors import (
    InfrastructureMissing,
    JobEnded,
    JobIsOver,
    JobNotFound,
    JobsError,
    NotConfirmed,
    RunAtInvalid,
    WaitTimeout,
)
from trellis_jobs.jetstream.client.own_loop import require_running
from trellis_jobs.jetstream.log.decide_again import Appended
from trellis_jobs.jetstream.log.end_notices import watch_job
from trellis_jobs.model import subjects
from trellis_jobs.model.alarms import MAX_HOLD
from trellis_jobs.model.delays import MOVABLE, RELEASABLE
from trellis_jobs.model.events import Begun, Cancelled, Completed, Event, EventKind
from trellis_jobs.model.job import Job, fold, reduce
from trellis_jobs.model.job_errors import MESSAGE_LIMIT, bounded
from trellis_jobs.model.job_redaction import SecretPointers, redact_event, redact_job
from trellis_jobs.model.states import JobState
from trellis_jobs.model.values import Value
from trellis_jobs.producer.job_move import JobMove
from trellis_jobs.producer.job_snapshot import JobSnapshot, read_result
from trellis_jobs.producer.run_times import Delay, absolute_run_at
from trellis_jobs.producer.submission import REQUEST_TIMEOUT

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Collection, Mapping
    from datetime import datetime

    from trellis_jobs.contract.declaration import JobType
    from trellis_jobs.environment import Environment
    from trellis_jobs.jetstream.alarms.alarms import Alarms
    from trellis_jobs.jetstream.client.connection import Connection
    from trellis_jobs.jetstream.keys.coordinator import KeyCoordinator
    from trellis_jobs.jetstream.log.event_log import EventLog, Latest
    from trellis_jobs.model.identity import JobAddress
    from trellis_jobs.model.job_status import Head

log = logging.getLogger(__name__)

R_co = TypeVar("R_co", covariant=True)

# Seconds between reads after a hint, which may arrive before its event, and without any hint,
# which may be lost.
_RECHECK_DELAYS: Final = (0.005, 0.02, 0.1)
_POLL_INTERVAL: Final = 5.0

_ERROR_BY_STATE: Final[Mapping[str | None, type[JobEnded]]] = {
    error.ended_in: error for error in JobEnded.__subclasses__()
}


class JobAccess(Value, frozen=True):
    """What a reference needs to reach its job. `keys` is None on a queue without keys."""

    connection: Connection
    events: EventLog
    environment: Environment
    keys: KeyCoordinator | None
    alarms: Alarms


class JobRef(Generic[R_co]):
    """A job, by its id. All methods read the log.

    `request_timeout` limits get, events and cancel, in seconds.
    """

    request_timeout: float = REQUEST_TIMEOUT

    def __init__(
        self,
        address: JobAddress,
        queue: JobType[Any, R_co],
        access: JobAccess,
        *,
        since: int = 0,
    ) -> None:
        self.address = address
        self._since = since
        self._queue = queue
        self._connection = access.connection
        self._events = access.events
        self._environment = access.environment
        self._keys = access.keys
        self._alarms = access.alarms

    @property
    def id(self) -> str:
        return self.address.job_id

    @property
    def since(self) -> int:
        """The log sequence that reads of this job must include, or 0 if none is known."""
        return self._since

    def __repr__(self) -> str:
        return f"JobRef({self.address.service}/{self.address.job_type}/{self.id})"

    async def get(self, *, reveal: bool = False) -> JobSnapshot[R_co]:
        """Reads the job's whole history and returns its current state.

        Secrets in the payload and result are replaced by `[secret]`, unless `reveal` is True.
        """
        async with self._with_timeout(f"a read of job {self.id}"):
            return self._snapshot(await self._folded(), reveal=reveal)

    async def wait(self, timeout: float | None = None) -> R_co:
        """Waits for the result. A job that ends otherwise raises JobEnded (JobFailed, …)."""
        require_running(self._connection.loop)
        try:
            async with asyncio.timeout(timeout):
                head = await self._until_over()
                return await self._outcome(head)
        except TimeoutError:
            raise WaitTimeout(self.id, timeout or 0) from None

    async def cancel(self, reason: str | None = None) -> None:
        """Cancels the job and its running handler. Cancelling a job twice is no error."""
        why = None if reason is None else bounded(str(reason), MESSAGE_LIMIT)

        def plan(latest: Latest) -> Cancelled | None:
            if latest.head.status.is_over:
                return None
            fields = latest.event_fields(self.address, self._environment.now())
            return Cancelled(**fields, by=self.address.service, reason=why)

        async with self._with_timeout(f"the end of job {self.id}"):
            ended = await self._events.append_planned(
                self.address,
                await self._latest(),
                plan,
                timeout=self.request_timeout,
                shared=self._queue.shared,
            )
            if ended is None:
                raise JobNotFound(self.id)
            if ended.head.status.state is not JobState.CANCELLED:
                raise JobIsOver(self.id, ended.head.status.state)
            if isinstance(ended, Appended) and _is_scheduled(ended.before):
                self._alarms.remove([subjects.alarm_of_job(self.address)])
            if self._keys is not None:
                await self._leave_key(self._keys)

    async def reschedule(
        self,
        *,
        delay: Delay | None = None,
        run_at: datetime | None = None,
        reason: str | None = None,
    ) -> None:
        """Moves a job that waits, also for its next try, to another time, as in create().

        It keeps its tries. Raises JobNotWaiting if the job runs or has ended, and DeadlineInvalid
        if it would expire before that time. On a queue that is shared with other runtimes, only a
        job that is scheduled can be moved.
        """
        moved_to = absolute_run_at(delay, run_at, self._environment.now())
        if moved_to is None:
            raise RunAtInvalid(None, "pass delay or run_at")
        await self._move(moved_to, MOVABLE, reason)

    async def run_now(self, reason: str | None = None) -> None:
        """Lets a job that waits for its time, or for its next try, run at once.

        Raises JobNotWaiting if the job runs or has ended. A pending job is not changed: it may run
        already.
        """
        await self._move(self._environment.now(), RELEASABLE, reason)

    async def _move(
        self, run_at: datetime, legal_from: Collection[JobState], reason: str | None
    ) -> None:
        move = JobMove(
            address=self.address,
            run_at=run_at,
            legal_from=legal_from,
            reason=None if reason is None else bounded(str(reason), MESSAGE_LIMIT),
            events=self._events,
            alarms=self._alarms,
            environment=self._environment,
            timeout=self.request_timeout,
            shared=self._queue.shared,
        )
        async with self._with_timeout(f"the new time of job {self.id}"):
            before = await move.carry_out(self._since)
            is_in_key = before is not None and before.state is not JobState.SCHEDULED
            # A job that is released at once keeps its place: it may be in use again by now.
            is_released_soon = run_at <= self._environment.now() + MAX_HOLD
            if self._keys is not None and is_in_key and not is_released_soon:
                await self._leave_key(self._keys)

    async def events(self, *, reveal: bool = False) -> list[Event]:
        """Returns all events so far, oldest first. Replaces secrets as `get` does."""
        async with self._with_timeout(f"a read of the history of job {self.id}"):
            entries = await self._events.history(self.address, at_least=self._since)
        if reveal:
            return [entry.event for entry in entries]
        return [redact_event(entry.event, self._secrets) for entry in entries]

    async def watch(self, *, reveal: bool = False) -> AsyncIterator[JobSnapshot[R_co]]:
        """Yields the job after each of its events, from the first one until it is over.

        Does not stop at an end after which an operator has retried the job. Replaces secrets as
        `get` does.
        """
        require_running(self._connection.loop)
        job, newest = None, (await self._latest()).head.sequence
        async for entry in self._events.follow(self.address):
            job = reduce(job, entry).job
            if job is not None:
                yield self._snapshot(job, reveal=reveal)
            if job is not None and job.is_over and entry.sequence >= newest:
                return

    async def _leave_key(self, keys: KeyCoordinator) -> None:
        """Removes a waiting job from its key. A running job's worker releases its slot.

        The job is cancelled even if this fails: then the next job of the key removes it.
        """
        try:
            for kind in (EventKind.RETRIED, EventKind.CREATED):
                entry = await self._events.last(self.address, kind)
                if entry is not None and isinstance(entry.event, Begun):
                    await keys.withdraw(keys.key_of(entry.event), self.id)
                    return
        except JobsError as error:
            log.warning(
                "could not remove the cancelled job %s from its key; the next job of the key "
                "removes it: %s",
                self.id,
                error,
                extra={"job": self.id, "error": str(error)},
            )

    @asynccontextmanager
    async def _with_timeout(self, what: str) -> AsyncIterator[None]:
        """Raises NotConfirmed after `request_timeout` seconds."""
        require_running(self._connection.loop)
        try:
            async with asyncio.timeout(self.request_timeout):
                yield
        except TimeoutError:
            raise NotConfirmed(what, self.request_timeout, self.id) from None

    async def _latest(self) -> Latest:
        latest = await self._events.latest(
            self.address, at_least=self._since, shared=self._queue.shared
        )
        if latest is None:
            raise JobNotFound(self.id)
        return latest

    async def _folded(self, at_least: int = 0) -> Job:
        job = fold(await self._events.history(self.address, at_least=at_least or self._since))
        if job is None:
            raise JobNotFound(self.id)
        return job

    def _snapshot(self, job: Job, *, reveal: bool) -> JobSnapshot[R_co]:
        shown = job if reveal else redact_job(job, self._secrets)
        return JobSnapshot(shown, self._queue.result, is_redacted=not reveal)

    @property
    def _secrets(self) -> SecretPointers:
        return SecretPointers(self._queue.payload.secrets, self._queue.result.secrets)

    async def _until_over(self) -> Head:
        hinted = asyncio.Event()
        subscription = await watch_job(self._connection, self.address, hinted.set)
        remove_listener = self._connection.on_reconnect(hinted.set)
        try:
            rechecks = 0
            while True:
                head = await self._try_read_head()
                if head is not None and head.status.is_over:
                    return head
                rechecks = await self._wait_for_hint(hinted, rechecks)
        finally:
            remove_listener()
            await self._connection.unsubscribe(subscription)

    async def _try_read_head(self) -> Head | None:
        """Returns None during an outage: wait() continues until its own timeout."""
        try:
            return (await self._latest()).head
        except (NotConfirmed, InfrastructureMissing):
            if self._connection.is_closed:
                raise
            return None

    async def _wait_for_hint(self, hinted: asyncio.Event, rechecks: int) -> int:
        """Waits for a hint or the next read. Returns the number of the next quick recheck, or 0."""
        request_timeout = (
            _RECHECK_DELAYS[rechecks - 1]
            if 0 < rechecks <= len(_RECHECK_DELAYS)
            else _POLL_INTERVAL
        )
        try:
            async with asyncio.timeout(request_timeout):
                await hinted.wait()
        except TimeoutError:
            return rechecks + 1 if 0 < rechecks < len(_RECHECK_DELAYS) else 0
        hinted.clear()
        return 1

    async def _outcome(self, head: Head) -> R_co:
        if head.status.state is JobState.COMPLETED:
            entry = await self._events.last(self.address, EventKind.COMPLETED)
            if entry is not None and isinstance(entry.event, Completed):
                return read_result(self.id, self._queue.result, entry.event.result)
        job = await self._folded(head.sequence)
        if job.state is JobState.COMPLETED:
            return read_result(self.id, self._queue.result, job.result)
        raise _ERROR_BY_STATE.get(job.state, JobEnded)(self.id, job.state, job.why)


def _is_scheduled(latest: Latest) -> bool:
    return latest.head.status.state is JobState.SCHEDULED
