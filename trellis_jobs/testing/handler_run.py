"""Runs one try of a handler without a server."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from functools import partial
from typing import (
    TYPE_CHECKING,
    Any,
    Final,
    Generic,
    Required,
    TypedDict,
    TypeVar,
    Unpack,
    overload,
)

from trellis_jobs.contract.payload_types import PayloadType
from trellis_jobs.errors import DeclarationError
from trellis_jobs.model import values
from trellis_jobs.model.job_errors import Interruption
from trellis_jobs.model.states import JobState
from trellis_jobs.producer.submission import Producer
from trellis_jobs.service.queue import Queue
from trellis_jobs.service.resources import prefer_values
from trellis_jobs.service.runtime import Connected, Runtime
from trellis_jobs.telemetry import Telemetry
from trellis_jobs.testing.earlier_tries import use_up_tries
from trellis_jobs.testing.interruptions import Interruptions
from trellis_jobs.testing.memory_dependencies import MemoryDependencies, memory_dependencies
from trellis_jobs.testing.memory_worker import MemoryWorker
from trellis_jobs.testing.recording_job import RecordedCalls, RecordingJob
from trellis_jobs.worker.current_job import CURRENT
from trellis_jobs.worker.handlers import Handler

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime, timedelta

    from trellis_jobs.contract.declaration import JobType
    from trellis_jobs.producer.job_ref import JobRef
    from trellis_jobs.producer.job_snapshot import JobSnapshot
    from trellis_jobs.testing.clock import Clock
    from trellis_jobs.worker.active_job import ActiveJob

P = TypeVar("P")
R = TypeVar("R")

_TIMEOUTS: Final = frozenset({Interruption.TIMEOUT, Interruption.VISIBILITY_TIMEOUT})


class HandlerRunOptions(TypedDict, total=False):
    """Options of a handler run. The default is the first try of a new job.

    `snoozes` is how often the job was snoozed before. `redelivered` is how often it was delivered
    before; by default, once for each earlier try and snooze. `job_id` is the id of the job; by
    default, a new one.
    `cancel_when` is called after each progress, log or heartbeat of the handler. The job is
    cancelled when it first returns True. `clock` is the clock from which the job takes its times.
    """

    tries: int
    max_tries: int
    snoozes: int
    redelivered: int
    job_id: str
    deadline: float | timedelta | datetime
    cancel_when: Callable[[RecordedCalls], bool]
    clock: Clock


class OlderPayloadOptions(HandlerRunOptions, total=False):
    """`version`: the payload is JSON of this older payload version."""

    version: Required[int]


@overload
async def run_handler(
    queue: Queue[P, R], payload: P, **options: Unpack[HandlerRunOptions]
) -> R: ...
@overload
async def run_handler(
    queue: Queue[P, R], payload: Any, **options: Unpack[OlderPayloadOptions]
) -> R: ...
async def run_handler(queue: Queue[Any, R], payload: Any, **options: Any) -> R:
    """Runs a queue's handler once. Returns its result or raises its exception."""
    return await HandlerRun(queue, payload, **options).run()


class HandlerRun(Generic[P, R]):
    """`recorded` has the calls of the handler. `job` is the job after the run."""

    job: JobSnapshot[R]

    @overload
    def __init__(
        self, queue: Queue[P, R], payload: P, **options: Unpack[HandlerRunOptions]
    ) -> None: ...
    @overload
    def __init__(
        self, queue: Queue[P, R], payload: Any, **options: Unpack[OlderPayloadOptions]
    ) -> None: ...
    def __init__(self, queue: Queue[P, R], payload: Any, **options: Any) -> None:
        self._version: int = options.get("version", queue.type.version)
        self.recorded = RecordedCalls()
        self._runtime = queue.runtime
        clock: Clock | None = options.get("clock")
        own = queue.runtime.environment
        self._environment = own if clock is None else clock.in_environment(own)
        self._payload = payload
        self._tries = options.get("tries", 1)
        self._snoozes = options.get("snoozes", 0)
        self._redelivered = options.get("redelivered", self._tries - 1 + self._snoozes)
        self._deadline = options.get("deadline")
        self._job_id: str | None = options.get("job_id")
        self._type: JobType[P, R] = _limited(queue.type, options.get("max_tries"))
        self._interruptions = Interruptions(self.recorded, options.get("cancel_when"))
        self._raised: BaseException | None = None
        if not 1 <= self._tries <= self._type.retry.max_tries:
            raise ValueError(
                f"tries must be between 1 and {self._type.retry.max_tries}, not {self._tries}"
            )

    async def run(self) -> R:
        """Returns the result as `wait` does, or raises the handler's exception.

        Raises JobCancelled, JobExpired, or JobFailed for a result of the wrong type, as `wait`
        does. Raises TimeoutError for a try that takes longer than the timeout of its queue.
        """
        handler = self._handler()
        memory = memory_dependencies(self._runtime.service, self._environment)
        async with memory as dependencies:
            try:
                worker = MemoryWorker(handler, dependencies)
                await worker.open()
                ref = await self._create(dependencies)
                self._interruptions.begin(ref, worker.running)
                async with self._runtime.resources.opened() as values:
                    with prefer_values(values):
                        # A separate task, and so a separate context, as in a worker.
                        attempt = worker.deliver(ref.address, self._redelivered + 1)
                        await asyncio.create_task(attempt)
                self.job = await ref.get(reveal=True)
                return await self._outcome(ref)
            finally:
                await dependencies.background.close()

    async def cancel(self, reason: str | None = None) -> None:
        """Cancels the job and its running handler."""
        await self._interruptions.cancel(reason)

    def _handler(self) -> Handler:
        registered = self._runtime.handlers.get(self._type.name)
        if registered is None:
            raise DeclarationError(f"queue {self._type.name!r} has no handler to run")
        return Handler(self._type, partial(self._record, registered), registered.name)

    async def _record(self, handler: Handler, active: ActiveJob[Any]) -> Any:
        recording = RecordingJob(active, self.recorded, self._interruptions.on_call)
        CURRENT.set(recording)
        try:
            return await handler.call(recording)
        except BaseException as raised:
            self._raised = raised
            raise

    async def _create(self, dependencies: MemoryDependencies) -> JobRef[R]:
        """Creates the job with the usual producer, so that it gets the usual checks."""
        runtime = Runtime(self._runtime.service, self._environment)
        of_queue = dependencies.keys(self._type)
        keys = {} if of_queue is None else {self._type.name: of_queue}
        events, alarms = dependencies.events, dependencies.alarms
        producer = Producer(
            dependencies.service, events, keys, Telemetry(), self._environment, alarms
        )
        runtime.live = Connected(
            dependencies.connection, events, keys, alarms, producer, None, asyncio.Event()
        )
        queue = Queue(_of_version(self._type, self._version), runtime)
        ref = await queue.create(self._payload, job_id=self._job_id, deadline=self._deadline)
        await use_up_tries(dependencies, ref.address, self._tries - 1, snoozes=self._snoozes)
        return ref

    async def _outcome(self, ref: JobRef[R]) -> R:
        state, error = self.job.state, self.job.last_error
        if error is not None and error.type in _TIMEOUTS:
            raise TimeoutError(error.message) from self._raised
        if self._raised is None or state in {JobState.CANCELLED, JobState.EXPIRED}:
            return await ref.wait()
        raise self._raised


def _of_version(declared: JobType[Any, R], version: int) -> JobType[Any, R]:
    """Returns the declaration of an older version, whose payload type is unknown."""
    if version == declared.version:
        return declared
    return replace(declared, payload=PayloadType(object), version=version, upgrades={})


def _limited(declared: JobType[P, R], max_tries: int | None) -> JobType[P, R]:
    if max_tries is None:
        return declared
    return replace(declared, retry=values.replace(declared.retry, max_tries=max_tries))
