"""Payload in, job in the log: validate, name, ask its key, append `created`."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final, TypeVar

from trellis_jobs.contract.payload_types import TypeMismatch
from trellis_jobs.errors import (
    InfrastructureError,
    JobExists,
    JobsError,
    NotConfirmed,
    PayloadInvalid,
    SomeNotCreated,
)
from trellis_jobs.jetstream.log.event_log import EventLog, Refused
from trellis_jobs.model.concurrency import Concurrency
from trellis_jobs.model.context import JobContext
from trellis_jobs.model.events import Created
from trellis_jobs.model.identity import JobAddress, check_token_argument
from trellis_jobs.model.redaction import redacted
from trellis_jobs.model.values import Value, repr_with
from trellis_jobs.producer.admission import Admission
from trellis_jobs.producer.full_keys import FullKeys

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from datetime import datetime

    from trellis_jobs.contract.declaration import JobType
    from trellis_jobs.environment import Environment
    from trellis_jobs.jetstream.keys.coordinator import KeyCoordinator
    from trellis_jobs.model.json_values import Json
    from trellis_jobs.model.keys.template import JobKey
    from trellis_jobs.telemetry import Telemetry

P = TypeVar("P")

PATIENCE: Final = 30.0
_IN_FLIGHT: Final = 256


class Request(Value, frozen=True):
    """One job to be created, its payload already checked."""

    queue: JobType[Any, Any]
    payload: Json
    job_id: str | None = None
    deadline: datetime | None = None
    key: JobKey | None = None

    def __repr__(self) -> str:
        return repr_with(self, payload=redacted(self.payload, self.queue.payload.secrets))


class CreatedJob(Value, frozen=True):
    """`sequence`: its first event is there in the log, or later; no older read is believed."""

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
    ) -> None:
        self._service = service
        self._events = events
        self._keys = keys
        self.witness = FullKeys(environment.monotonic)
        self._telemetry = telemetry
        self._environment = environment

    def request(
        self,
        queue: JobType[P, Any],
        payload: P,
        *,
        job_id: str | None = None,
        deadline: datetime | None = None,
    ) -> Request:
        """Check everything that can be checked before anything is sent."""
        if job_id is not None:
            check_token_argument("job id", job_id)
        try:
            fitting = queue.payload.to_json(payload)
        except TypeMismatch as misfit:
            raise PayloadInvalid(queue.name, str(misfit)) from misfit
        key = None if queue.key_policy is None else queue.key_policy.template.resolve(fitting)
        return Request(queue, fitting, job_id, deadline, key)

    async def create(self, request: Request, since: float | None = None) -> CreatedJob:
        """Returns once the job is in the log; a lost acknowledgement is repeated, never doubled.

        `since`: when the patience began, by the clock of the loop.
        """
        begun = asyncio.get_running_loop().time() if since is None else since
        job = self._address(request)
        with self._telemetry.creating(job):
            created = self._created(job, self._context(), request)
            with self._telemetry.appending(created):
                entered = await self._enter(created, request, begun)
        self._telemetry.count(created)
        return entered

    def _address(self, request: Request) -> JobAddress:
        job_id = request.job_id or self._environment.new_id()
        return JobAddress(self._service, request.queue.name, job_id)

    def _context(self) -> JobContext:
        """Part of the caller's trace, or the beginning of one."""
        return next(self._contexts())

    def _contexts(self) -> Iterator[JobContext]:
        """Of jobs that one request creates."""
        request_id = self._environment.new_id()
        inherited = self._telemetry.inherited(request_id)
        while True:
            yield inherited or JobContext(request_id, self._environment.new_traceparent())

    def _created(self, job: JobAddress, context: JobContext, request: Request) -> Created:
        now, queue, key = self._environment.now(), request.queue, request.key
        deadline = request.deadline
        if deadline is None and queue.deadline is not None:
            deadline = now + queue.deadline
        return Created(
            job=job,
            context=context,
            at=now,
            tries=0,
            payload=request.payload,
            version=queue.version,
            secrets=queue.payload.secrets,
            max_tries=queue.retry.max_tries,
            deadline=deadline,
            concurrency=None if key is None else Concurrency(key=key.display, key_hash=key.hash),
        )

    async def _enter(self, created: Created, request: Request, since: float) -> CreatedJob:
        if request.key is None:
            sequence = await self._events.append_first(created, timeout=PATIENCE, started_at=since)
            if isinstance(sequence, Refused):
                raise JobExists(created.job.job_id)
            return CreatedJob(created.job, sequence)
        keys = self._keys[request.queue.name]
        admission = Admission(
            keys, self._events, request.key, created, witness=self.witness, patience=PATIENCE
        )
        try:
            async with asyncio.timeout_at(since + PATIENCE):
                entered = await admission.enter()
        except TimeoutError:
            raise _not_admitted(created.job) from None
        return CreatedJob(created.job, entered.head.sequence, entered.replaced)

    async def create_many(self, requests: Sequence[Request]) -> list[CreatedJob]:
        """Many at once, in order; raises SomeNotCreated, which says which, if not all went in."""
        if self._telemetry.traces or any(request.key is not None for request in requests):
            answers = await self._create_side_by_side(requests)
        else:
            answers = await self._create_in_a_row(requests)
        failed = {n: answer for n, answer in enumerate(answers) if isinstance(answer, JobsError)}
        jobs = {n: answer for n, answer in enumerate(answers) if isinstance(answer, CreatedJob)}
        if failed:
            raise SomeNotCreated({n: job.address.job_id for n, job in jobs.items()}, failed)
        return list(jobs.values())

    async def _create_in_a_row(self, requests: Sequence[Request]) -> list[CreatedJob | JobsError]:
        """Nobody traces them, and no key has to be asked: they are appended, and that is all."""
        events: list[Created] = []

        def made_as_they_are_sent() -> Iterator[Created]:
            for request, context in zip(requests, self._contexts(), strict=False):
                events.append(self._created(self._address(request), context, request))
                yield events[-1]

        answers = await self._events.append_first_many(made_as_they_are_sent(), timeout=PATIENCE)
        return [self._told(event, answer) for event, answer in zip(events, answers, strict=True)]

    def _told(self, event: Created, answer: int | Refused | JobsError) -> CreatedJob | JobsError:
        match answer:
            case int():
                self._telemetry.count(event)
                return CreatedJob(event.job, answer)
            case Refused():
                return JobExists(event.job.job_id)
            case JobsError():
                return answer

    async def _create_side_by_side(
        self, requests: Sequence[Request]
    ) -> list[CreatedJob | JobsError]:
        """They share their patience, as in a row: an outage costs it once."""
        answers, waiting = dict[int, CreatedJob | JobsError](), iter(enumerate(requests))
        now = asyncio.get_running_loop().time
        with_inbox_prefix = now()

        async def create_what_waits() -> None:
            nonlocal with_inbox_prefix
            for n, request in waiting:
                if now() >= with_inbox_prefix + PATIENCE:
                    # Begun now, it would take a place in its key and never come.
                    answers[n] = _not_admitted(self._address(request))
                    continue
                try:
                    answers[n] = await self.create(request, with_inbox_prefix)
                except (NotConfirmed, InfrastructureError) as error:
                    answers[n] = error
                    continue
                except JobsError as error:
                    answers[n] = error
                with_inbox_prefix = now()

        lanes = min(_IN_FLIGHT, len(requests))
        await asyncio.gather(*(create_what_waits() for _ in range(lanes)))
        return [answers[n] for n in range(len(requests))]


def _not_admitted(job: JobAddress) -> NotConfirmed:
    return NotConfirmed("the job's admission", PATIENCE, job.job_id)
