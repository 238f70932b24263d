"""Creates jobs: checks the payload, chooses an id, reserves the key, appends `created`."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final, TypeVar, Unpack

from trellis_jobs.contract.payload_types import TypeMismatch
from trellis_jobs.errors import (
    DeadlineInvalid,
    InfrastructureError,
    JobExists,
    JobsError,
    NotConfirmed,
    PayloadInvalid,
    SomeNotCreated,
)
from trellis_jobs.jetstream.log.event_log import EventLog, Refused
from trellis_jobs.model import subjects
from trellis_jobs.model.alarms import EventWindow
from trellis_jobs.model.concurrency import Concurrency
from trellis_jobs.model.context import JobContext
from trellis_jobs.model.creator import ITS_SERVICE, Creator
from trellis_jobs.model.delays import delayed
from trellis_jobs.model.events import Created
from trellis_jobs.model.identity import JobAddress, check_token_argument
from trellis_jobs.model.redaction import redacted
from trellis_jobs.model.values import Value, repr_with
from trellis_jobs.producer.admission import Admission
from trellis_jobs.producer.full_keys import FullKeys
from trellis_jobs.producer.try_options import (
    OF_THE_QUEUE,
    TryOptions,
    TrySettings,
    read_try_options,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from datetime import datetime

    from trellis_jobs.contract.declaration import JobType
    from trellis_jobs.environment import Environment
    from trellis_jobs.jetstream.alarms.alarms import Alarms
    from trellis_jobs.jetstream.keys.coordinator import KeyCoordinator
    from trellis_jobs.model.events import Described, Scheduled
    from trellis_jobs.model.json_values import Json
    from trellis_jobs.model.keys.template import JobKey
    from trellis_jobs.telemetry import Telemetry

P = TypeVar("P")

REQUEST_TIMEOUT: Final = 30.0
_MAX_IN_FLIGHT: Final = 256
_DELAYED_AT_ONCE: Final = 1_000


class Request(Value, frozen=True):
    """One job to create. Its payload is already checked.

    `run_at` is when the job is to run; None means at once. `schedule` is the name of the schedule
    that creates it: such a job runs at once, and `run_at` is the tick of the schedule. `version` is
    that of the payload; None means the version that the queue declares. `creator` is recorded in
    the job's first event.
    """

    queue: JobType[Any, Any]
    payload: Json
    job_id: str | None = None
    deadline: datetime | None = None
    key: JobKey | None = None
    settings: TrySettings = OF_THE_QUEUE
    run_at: datetime | None = None
    schedule: str | None = None
    version: int | None = None
    creator: Creator = ITS_SERVICE

    def __repr__(self) -> str:
        return repr_with(self, payload=redacted(self.payload, self.queue.payload.secrets))


class CreatedJob(Value, frozen=True):
    """`sequence`: the job's first event has this log sequence or a later one.

    A read of the job that does not include this sequence is stale.
    """

    address: JobAddress
    sequence: int
    replaced: str | None = None


class Producer:
    def __init__(
        self,
        service: str,
        events: EventLog,
        keys: Mapping[str, KeyCoordinator],
        telemetry: Telemetry,
        environment: Environment,
        alarms: Alarms,
    ) -> None:
        self._alarms = alarms
        self._service = service
        self._events = events
        self._keys = keys
        self.full_keys = FullKeys(environment.monotonic)
        self._telemetry = telemetry
        self._environment = environment

    def request(
        self,
        queue: JobType[P, Any],
        payload: P,
        *,
        job_id: str | None = None,
        deadline: datetime | None = None,
        run_at: datetime | None = None,
        creator: Creator = ITS_SERVICE,
        **options: Unpack[TryOptions],
    ) -> Request:
        """Checks everything that can be checked before anything is sent."""
        if job_id is not None:
            check_token_argument("job id", job_id)
        if run_at is not None and deadline is not None and deadline <= run_at:
            raise DeadlineInvalid(deadline, f"the job would expire before it may run, at {run_at}")
        try:
            payload_json = queue.payload.to_json(payload)
        except TypeMismatch as mismatch:
            raise PayloadInvalid(queue.name, str(mismatch)) from mismatch
        key = None if queue.key_policy is None else queue.key_policy.template.resolve(payload_json)
        settings = read_try_options(queue, **options) if options else OF_THE_QUEUE
        return Request(
            queue, payload_json, job_id, deadline, key, settings, run_at, creator=creator
        )

    def first_event(self, request: Request) -> Created | Scheduled:
        """The event with which create() would begin the job now. Sends nothing."""
        make = self._scheduled if self._is_delayed(request) else self._created
        return make(self._address(request), self._context(), request)

    async def create(self, request: Request, since: float | None = None) -> CreatedJob:
        """Returns when the job is in the log. Repeating a lost request creates no second job.

        `since` is when the timeout began, by the clock of the event loop.
        """
        started_at = asyncio.get_running_loop().time() if since is None else since
        job = self._address(request)
        if request.run_at is not None and self._is_delayed(request):
            return await self._delay(job, request, started_at)
        with self._telemetry.creating(job):
            created = self._created(job, self._context(), request)
            with self._telemetry.appending(created):
                entered = await self._enter(created, request, started_at)
        self._telemetry.count(created)
        return entered

    def _address(self, request: Request) -> JobAddress:
        job_id = request.job_id or self._environment.new_id()
        return JobAddress(self._service, request.queue.name, job_id)

    def _context(self) -> JobContext:
        """Continues the caller's trace, or starts a new one."""
        return next(self._contexts())

    def _contexts(self) -> Iterator[JobContext]:
        """The contexts of jobs that one request creates. They share its request id."""
        request_id = self._environment.new_id()
        current_context = self._telemetry.current_context(request_id)
        while True:
            yield current_context or JobContext(request_id, self._environment.new_traceparent())

    def _created(self, job: JobAddress, context: JobContext, request: Request) -> Created:
        now, queue, key = self._environment.now(), request.queue, request.key
        deadline, creator = request.deadline, request.creator
        if deadline is None and queue.deadline is not None:
            deadline = now + queue.deadline
        return Created(
            job=job,
            context=context,
            at=now,
            tries=0,
            payload=request.payload,
            version=queue.version if request.version is None else request.version,
            secrets=queue.payload.secrets,
            max_tries=request.settings.max_tries or queue.retry.max_tries,
            deadline=deadline,
            try_limits=request.settings.limits,
            concurrency=None if key is None else Concurrency(key=key.display, key_hash=key.hash),
            run_at=request.run_at,
            schedule=request.schedule,
            by=creator.by,
            reason=creator.reason,
            request=creator.request,
        )

    def _is_delayed(self, request: Request) -> bool:
        return (
            request.schedule is None
            and request.run_at is not None
            and request.run_at > self._environment.now()
        )

    async def _delay(self, job: JobAddress, request: Request, since: float) -> CreatedJob:
        """Sets the alarm first: an alarm without a job is dropped, a job without one is late.

        Both share the timeout, because an alarm waits for its job for a limited time.
        """
        with self._telemetry.creating(job):
            scheduled = self._scheduled(job, self._context(), request)
            await self._alarms.set(
                subjects.alarm_of_job(job),
                scheduled.run_at,
                timeout=REQUEST_TIMEOUT,
                started_at=since,
            )
            with self._telemetry.appending(scheduled):
                sequence = await self._events.append_first(
                    scheduled, timeout=REQUEST_TIMEOUT, started_at=since
                )
        if isinstance(sequence, Refused):
            raise JobExists(job.job_id)
        self._telemetry.count(scheduled)
        return CreatedJob(job, sequence)

    def _scheduled(self, job: JobAddress, context: JobContext, request: Request) -> Scheduled:
        """The default deadline of the queue counts from the time when the job may run."""
        created = self._created(job, context, request)
        after = request.queue.deadline if request.deadline is None else None
        run_at = request.run_at or created.at
        return delayed(created, run_at, after)

    async def _enter(self, created: Created, request: Request, since: float) -> CreatedJob:
        if request.key is None:
            sequence = await self._events.append_first(
                created, timeout=REQUEST_TIMEOUT, started_at=since
            )
            if isinstance(sequence, Refused):
                raise JobExists(created.job.job_id)
            return CreatedJob(created.job, sequence)
        keys = self._keys[request.queue.name]
        admission = Admission(
            keys=keys,
            events=self._events,
            key=request.key,
            created=created,
            full_keys=self.full_keys,
            timeout=REQUEST_TIMEOUT,
        )
        try:
            async with asyncio.timeout_at(since + REQUEST_TIMEOUT):
                entered = await admission.enter()
        except TimeoutError:
            raise _not_admitted(created.job) from None
        return CreatedJob(created.job, entered.head.sequence, entered.replaced)

    async def create_many(self, requests: Sequence[Request]) -> list[CreatedJob]:
        """Creates all jobs. Raises SomeNotCreated, with their numbers, if some failed."""
        if all(map(self._is_delayed, requests)):
            answers = await self._delay_in_batches(requests)
        elif self._telemetry.has_tracing or any(request.key is not None for request in requests):
            answers = await self._create_concurrently(requests)
        else:
            answers = await self._create_in_batches(requests)
        failed = {n: answer for n, answer in enumerate(answers) if isinstance(answer, JobsError)}
        jobs = {n: answer for n, answer in enumerate(answers) if isinstance(answer, CreatedJob)}
        if failed:
            raise SomeNotCreated({n: job.address.job_id for n, job in jobs.items()}, failed)
        return list(jobs.values())

    async def _create_in_batches(self, requests: Sequence[Request]) -> list[CreatedJob | JobsError]:
        """For jobs without keys and tracing, which need nothing but the append."""
        events: list[Created] = []

        def events_to_send() -> Iterator[Created]:
            for request, context in zip(requests, self._contexts(), strict=False):
                events.append(self._created(self._address(request), context, request))
                yield events[-1]

        answers = await self._events.append_first_many(events_to_send(), timeout=REQUEST_TIMEOUT)
        return [self._result(event, answer) for event, answer in zip(events, answers, strict=True)]

    async def _delay_in_batches(self, requests: Sequence[Request]) -> list[CreatedJob | JobsError]:
        answers: list[CreatedJob | JobsError] = []
        contexts = self._contexts()
        for first in range(0, len(requests), _DELAYED_AT_ONCE):
            answers += await self._delay_some(requests[first : first + _DELAYED_AT_ONCE], contexts)
        return answers

    async def _delay_some(
        self, requests: Sequence[Request], contexts: Iterator[JobContext]
    ) -> list[CreatedJob | JobsError]:
        """Sets the alarms before it creates the jobs. A delayed job reserves no key yet."""
        events = [
            self._scheduled(self._address(request), next(contexts), request) for request in requests
        ]
        alarms = {subjects.alarm_of_job(event.job): event.run_at for event in events}
        window = EventWindow(self._environment.monotonic)
        failed = await self._alarms.set_many(alarms, timeout=REQUEST_TIMEOUT)
        ready = [event for event in events if subjects.alarm_of_job(event.job) not in failed]
        answers = iter(
            await self._events.append_first_many(ready, timeout=REQUEST_TIMEOUT, window=window)
        )
        return [
            failed.get(subjects.alarm_of_job(event.job)) or self._result(event, next(answers))
            for event in events
        ]

    def _result(
        self, event: Described, answer: int | Refused | JobsError
    ) -> CreatedJob | JobsError:
        match answer:
            case int():
                self._telemetry.count(event)
                return CreatedJob(event.job, answer)
            case Refused():
                return JobExists(event.job.job_id)
            case JobsError():
                return answer

    async def _create_concurrently(
        self, requests: Sequence[Request]
    ) -> list[CreatedJob | JobsError]:
        """All jobs share one timeout, which restarts with every answer.

        So an outage costs one timeout, not one for each job.
        """
        answers, waiting = dict[int, CreatedJob | JobsError](), iter(enumerate(requests))
        now = asyncio.get_running_loop().time
        last_answer_at = now()

        async def create_next() -> None:
            nonlocal last_answer_at
            for n, request in waiting:
                if now() >= last_answer_at + REQUEST_TIMEOUT:
                    # Starting it now could leave a reservation in its key and no job.
                    answers[n] = _not_admitted(self._address(request))
                    continue
                try:
                    answers[n] = await self.create(request, last_answer_at)
                except (NotConfirmed, InfrastructureError) as error:
                    answers[n] = error
                    continue
                except JobsError as error:
                    answers[n] = error
                last_answer_at = now()

        tasks = min(_MAX_IN_FLIGHT, len(requests))
        await asyncio.gather(*(create_next() for _ in range(tasks)))
        return [answers[n] for n in range(len(requests))]


def _not_admitted(job: JobAddress) -> NotConfirmed:
    return NotConfirmed("the job's admission", REQUEST_TIMEOUT, job.job_id)
