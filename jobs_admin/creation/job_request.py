"""A job that an operator wants to create, and its check against the contract of its queue."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from jobs_admin.api.errors import Issue, JobInvalid
from jobs_admin.hidden_values import HiddenValues
from trellis_jobs.contract.payload_types import TypeMismatch
from trellis_jobs.errors import (
    DeadlineInvalid,
    JobOptionInvalid,
    JobsError,
    KeyUnresolvable,
    PayloadInvalid,
    RunAtInvalid,
)
from trellis_jobs.model.creator import ITS_SERVICE
from trellis_jobs.producer.run_times import absolute_run_at
from trellis_jobs.producer.try_options import TryOptions

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from jobs_admin.api.inputs import CreateInput
    from trellis_jobs.contract.declaration import JobType
    from trellis_jobs.model.creator import Creator
    from trellis_jobs.model.json_values import Json
    from trellis_jobs.producer.submission import Producer, Request

_PAYLOAD: Final = "/payload"
_MILLISECOND: Final = timedelta(milliseconds=1)
# The fields of a request by the options that errors name.
_OPTION_PATHS: Final[Mapping[str, str]] = {
    "max_tries": "/maxTries",
    "timeout": "/timeoutMs",
    "visibility": "/visibilityMs",
}
_REFUSALS: Final = (
    DeadlineInvalid,
    JobOptionInvalid,
    KeyUnresolvable,
    PayloadInvalid,
    RunAtInvalid,
    TypeMismatch,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRequest:
    """`payload_version`: the version of the payload, if it was taken from another job.

    Without a `job_id`, the job gets a new id.
    """

    service: str
    job_type: str
    payload: Json
    payload_version: int | None = None
    job_id: str | None = None
    deadline: datetime | None = None
    run_at: datetime | None = None
    try_options: TryOptions = field(default_factory=TryOptions)
    creator: Creator = ITS_SERVICE


def requested(request: CreateInput, creator: Creator, now: datetime) -> JobRequest:
    """The job of an RPC. Raises JobInvalid."""
    return JobRequest(
        service=request.service,
        job_type=request.type,
        payload=request.payload,
        payload_version=request.payload_version,
        job_id=request.id,
        deadline=request.deadline,
        run_at=_run_at(request, now),
        try_options=_try_options(request),
        creator=creator,
    )


def checked(producer: Producer, queue: JobType[Any, Any], request: JobRequest) -> Request:
    """The request for the producer. Raises JobInvalid, which names each invalid field."""
    _check_version(queue, request)
    if hidden := HiddenValues.of(request.payload, queue.payload.secrets):
        raise JobInvalid(hidden.problem, hidden.issues)
    try:
        return producer.request(
            queue,
            queue.payload.from_json(request.payload),
            job_id=request.job_id,
            deadline=request.deadline,
            run_at=request.run_at,
            creator=request.creator,
            **request.try_options,
        )
    except _REFUSALS as error:
        raise _invalid(queue, error) from error


def _check_version(queue: JobType[Any, Any], request: JobRequest) -> None:
    version = request.payload_version
    if version is not None and version != queue.version:
        problem = (
            f"the payload has version {version}, and queue {queue.name!r} takes version "
            f"{queue.version}: give a payload of that version"
        )
        raise JobInvalid.at("/payloadVersion", problem)


def _invalid(queue: JobType[Any, Any], error: JobsError | TypeMismatch) -> JobInvalid:
    if isinstance(error, TypeMismatch):
        return JobInvalid(str(PayloadInvalid(queue.name, str(error))), _payload_issues(error))
    cause = error.__cause__
    if isinstance(cause, TypeMismatch):
        return JobInvalid(str(error), _payload_issues(cause))
    return JobInvalid.at(_path_of(error), str(error))


def _payload_issues(mismatch: TypeMismatch) -> list[Issue]:
    return [Issue(f"{_PAYLOAD}{each.pointer}", each.message) for each in mismatch.problems]


def _path_of(error: JobsError) -> str:
    match error:
        case KeyUnresolvable(pointer=pointer):
            return f"{_PAYLOAD}{pointer}"
        case DeadlineInvalid():
            return "/deadline"
        case RunAtInvalid():
            return "/runAt"
        case JobOptionInvalid(problem=problem):
            return _OPTION_PATHS.get(problem.partition(" ")[0], "/")
        case _:
            return _PAYLOAD


def _run_at(request: CreateInput, now: datetime) -> datetime | None:
    delay = None if request.delay_ms is None else request.delay_ms * _MILLISECOND
    try:
        return absolute_run_at(delay, request.run_at, now)
    except RunAtInvalid as error:
        raise JobInvalid.at("/runAt" if delay is None else "/delayMs", str(error)) from None


def _try_options(request: CreateInput) -> TryOptions:
    return {
        "max_tries": request.max_tries,
        "timeout": _duration(request.timeout_ms),
        "visibility": _duration(request.visibility_ms),
    }


def _duration(milliseconds: int | None) -> timedelta | None:
    return None if milliseconds is None else milliseconds * _MILLISECOND
