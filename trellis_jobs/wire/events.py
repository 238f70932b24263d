"""Lifecycle events ⇄ JSON.

In addition to the original runtimes' fields, our events include the job's status after them
(`maxTries`, `deadline`, `runSeq`, `attempt`, `nextAttemptAt`, `snoozes`): readers need only the
newest event.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from trellis_jobs.errors import InvalidToken
from trellis_jobs.model import events as e
from trellis_jobs.model.events import EventKind
from trellis_jobs.model.identity import JobAddress
from trellis_jobs.model.job import Entry
from trellis_jobs.model.job_errors import JobError
from trellis_jobs.model.job_status import JobStatus
from trellis_jobs.model.notes import NOTHING_NOTED
from trellis_jobs.model.reducer import RULES, begin
from trellis_jobs.model.states import JobState
from trellis_jobs.wire import attempts, concurrency, contexts, job_errors, notes, states, try_limits
from trellis_jobs.wire import headers as h
from trellis_jobs.wire.fields import (
    MILLISECOND,
    BadField,
    add_present,
    any_json,
    app_version,
    count,
    dumps,
    loads,
    milliseconds,
    optional,
    optional_timestamp,
    required,
    secret_pointers,
    timestamp,
    version,
)

if TYPE_CHECKING:
    from trellis_jobs.model.attempts import Attempt

# Fields that few events have. One check for all of them makes decoding the others faster.
_RARE_RUN_FIELDS: Final = frozenset(
    {
        "payloadVersion",
        "secrets",
        "deadline",
        "concurrency",
        "queuePolicy",
        "runAt",
        "schedule",
        "by",
        "byRequestId",
        "error",
        *try_limits.FIELDS,
    }
)
_RARE_ATTEMPT_FIELDS: Final = frozenset({"progress", "logs", "concurrency"})


@dataclass(frozen=True, slots=True)
class Undecodable:
    """A message under a job's subject that is not a valid event, and why."""

    sequence: int
    reason: str


def encode(event: e.Event, status: JobStatus, previous: JobState | None) -> bytes:
    job, context = event.job, event.context
    body: dict[str, Any] = {
        "jobId": job.job_id,
        "context": contexts.to_json(context),
        "service": job.service,
        "jobType": job.job_type,
        "eventType": event.kind,
        "state": status.state,
        "tries": status.tries,
        "maxTries": status.max_tries,
        "timestamp": event.at,
    }
    if previous is not None:
        body["previousState"] = previous
    _add_status(body, event, status)
    _ENCODERS[event.kind](body, event)
    return dumps(body)


def decode(
    data: bytes, *, expected: JobAddress, sequence: int, headers: Mapping[str, str] | None = None
) -> Entry | Undecodable:
    """Decode an event. Its body must name the same job as the subject it was stored under."""
    if headers is not None and h.is_server_reply(headers):
        return Undecodable(sequence, "the server's reply to a request, not an event")
    try:
        body = loads(data)
        event = _decode_event(body, expected)
        return Entry(sequence, event, _decode_status(body, event, sequence))
    except (BadField, InvalidToken) as error:
        return Undecodable(sequence, str(error))


def _add_status(body: dict[str, Any], event: e.Event, status: JobStatus) -> None:
    if status.run:
        body["runSeq"] = status.run
    if status.deadline is not None:
        body["deadline"] = status.deadline
    if status.next_attempt_at is not None and not isinstance(event, e.Scheduled):
        body["nextAttemptAt"] = status.next_attempt_at
    if status.snoozes:
        body["snoozes"] = status.snoozes
    attempt = event.attempt if isinstance(event, e.AttemptEvent) else status.owner
    if attempt is not None:
        body["attempt"] = attempts.to_json(attempt)


def _write_described(body: dict[str, Any], event: e.Described) -> None:
    body["payload"] = event.payload
    if event.version != 1:
        body["payloadVersion"] = event.version
    if event.secrets:
        body["secrets"] = list(event.secrets)
    if event.try_limits is not None:
        try_limits.add_to(body, event.try_limits)
    if event.concurrency is not None:
        body["concurrency"] = concurrency.to_json(event.concurrency)
    if event.queue_policy is not None:
        body["queuePolicy"] = concurrency.policy_to_json(event.queue_policy)
    _write_origin(body, event)


def _write_origin(body: dict[str, Any], event: e.Described) -> None:
    """When the job was to run, and who created, moved or retried it."""
    if event.run_at is not None:
        body["runAt"] = event.run_at
    if event.schedule is not None:
        body["schedule"] = event.schedule
    if event.by is not None or event.reason is not None or event.request is not None:
        _write_decided(body, event)


def _write_scheduled(body: dict[str, Any], event: e.Scheduled) -> None:
    if event.deadline_after is not None:
        body["deadlineAfterMs"] = event.deadline_after // MILLISECOND
    _write_described(body, event)


def _write_attempt(body: dict[str, Any], event: e.AttemptEvent) -> None:
    if event.concurrency is not None:
        body["concurrency"] = concurrency.to_json(event.concurrency)
    if event.notes is not NOTHING_NOTED:
        notes.add_to(body, event.notes)


def _write_started(body: dict[str, Any], event: e.Started) -> None:
    if event.waited_for_key is not None:
        body["waitedForKeyMs"] = event.waited_for_key // MILLISECOND
    if event.app_version is not None:
        body["appVersion"] = event.app_version
    _write_attempt(body, event)


def _write_completed(body: dict[str, Any], event: e.Completed) -> None:
    body["result"] = event.result
    if event.secrets:
        body["secrets"] = list(event.secrets)
    _write_attempt(body, event)


def _write_errored(
    body: dict[str, Any], event: e.RetryScheduled | e.Failed | e.Dead | e.Stale
) -> None:
    body["error"] = job_errors.text(event.error)
    body["errorDetail"] = job_errors.to_json(event.error)
    _write_attempt(body, event)


def _write_stale_completion_ignored(body: dict[str, Any], event: e.StaleCompletionIgnored) -> None:
    add_present(body, error=event.reason, lostAttempt=event.lost_attempt)


def _write_decided(body: dict[str, Any], event: e.Decided | e.Described) -> None:
    add_present(body, by=event.by, byRequestId=event.request, error=event.reason)


def _decode_event(body: dict[str, Any], expected: JobAddress) -> e.Event:
    kind = required(body, "eventType", str)
    make = _DECODERS.get(kind)
    if make is None:
        raise BadField(f"eventType {kind!r:.80} is not known")
    if (
        body.get("jobId") != expected.job_id
        or body.get("jobType") != expected.job_type
        or body.get("service") != expected.service
    ):
        tokens = [required(body, name, str) for name in ("service", "jobType", "jobId")]
        raise BadField(f"the body names {JobAddress(*tokens)}, the subject {expected}")
    common = {
        "job": expected,
        "context": contexts.from_json(required(body, "context", dict)),
        "at": timestamp(body, "timestamp"),
        "tries": count(body, "tries"),
    }
    return make(body, common)


def _decode_status(body: dict[str, Any], event: e.Event, sequence: int) -> JobStatus | None:
    """The job's status after the event. Returns None for events of foreign runtimes."""
    snoozes = count(body, "snoozes") if "snoozes" in body else 0
    if isinstance(event, e.Described):
        return begin(event, sequence, snoozes)
    if "runSeq" not in body:
        return None
    state, leads_to = states.from_json(body), RULES[event.kind].leads_to
    if leads_to is not None and state is not leads_to:
        raise BadField(f"{event.kind} leads to {leads_to}, not to {state}")
    return JobStatus(
        state,
        event.tries,
        count(body, "maxTries", minimum=1),
        count(body, "runSeq", minimum=1),
        optional_timestamp(body, "deadline"),
        owner=_owner(body, event) if state is JobState.ACTIVE else None,
        next_attempt_at=optional_timestamp(body, "nextAttemptAt"),
        snoozes=snoozes,
    )


def _owner(body: dict[str, Any], event: e.Event) -> Attempt | None:
    return event.attempt if isinstance(event, e.AttemptEvent) else attempts.from_json(body)


def _error(body: dict[str, Any]) -> JobError:
    """The error detail, or an error made from the plain text of a foreign runtime."""
    detail = optional(body, "errorDetail", dict)
    if detail is None:
        return JobError(
            type="error",
            message=optional(body, "error", str) or "no error was given",
            tries=count(body, "tries"),
            at=timestamp(body, "timestamp"),
        )
    return job_errors.from_json(detail)


_Common = dict[str, Any]
_Decoder = Callable[[dict[str, Any], _Common], e.Event]


def _described(make: Callable[..., e.Event]) -> _Decoder:
    def read(body: dict[str, Any], common: _Common) -> e.Event:
        if "payload" not in body:
            raise BadField("payload is missing")
        common["payload"] = any_json(body, "payload")
        common["max_tries"] = count(body, "maxTries", minimum=1) if "maxTries" in body else 1
        if not _RARE_RUN_FIELDS.isdisjoint(body):
            common["version"] = version(body)
            common["secrets"] = secret_pointers(body, "secrets")
            common["deadline"] = optional_timestamp(body, "deadline")
            common["try_limits"] = try_limits.from_json(body)
            common["concurrency"] = concurrency.from_json(body)
            common["queue_policy"] = concurrency.policy_from_json(body)
            common["run_at"] = optional_timestamp(body, "runAt")
            common["schedule"] = optional(body, "schedule", str)
            common.update(_attribution(body))
        return make(**common)

    return read


_read_scheduled: Final = _described(e.Scheduled)


def _scheduled(body: dict[str, Any], common: _Common) -> e.Event:
    required(body, "runAt", str)
    if "deadlineAfterMs" in body:
        common["deadline_after"] = milliseconds(body, "deadlineAfterMs")
    return _read_scheduled(body, common)


def _attempt_fields(body: dict[str, Any], common: _Common) -> _Common:
    """Add the fields that all events of an attempt have to the common ones."""
    common["attempt"] = attempts.from_json(body)
    if not _RARE_ATTEMPT_FIELDS.isdisjoint(body):
        common["notes"] = notes.from_json(body)
        common["concurrency"] = concurrency.from_json(body)
    return common


def _attempted(make: Callable[..., e.Event]) -> _Decoder:
    def read(body: dict[str, Any], common: _Common) -> e.Event:
        return make(**_attempt_fields(body, common))

    return read


def _errored(make: Callable[..., e.Event]) -> _Decoder:
    def read(body: dict[str, Any], common: _Common) -> e.Event:
        return make(**_attempt_fields(body, common), error=_error(body))

    return read


def _decided(make: Callable[..., e.Event]) -> _Decoder:
    def read(body: dict[str, Any], common: _Common) -> e.Event:
        return make(**common, **_attribution(body))

    return read


def _attribution(body: dict[str, Any]) -> e.DecidedFields:
    return {
        "by": optional(body, "by", str),
        "reason": optional(body, "error", str),
        "request": optional(body, "byRequestId", str),
    }


def _retry_scheduled(body: dict[str, Any], common: _Common) -> e.Event:
    return e.RetryScheduled(
        **_attempt_fields(body, common),
        error=_error(body),
        next_attempt_at=optional_timestamp(body, "nextAttemptAt"),
    )


def _started(body: dict[str, Any], common: _Common) -> e.Event:
    if "waitedForKeyMs" in body:
        common["waited_for_key"] = milliseconds(body, "waitedForKeyMs")
    if "appVersion" in body:
        common["app_version"] = app_version(body)
    return e.Started(**_attempt_fields(body, common))


def _completed(body: dict[str, Any], common: _Common) -> e.Event:
    fields = _attempt_fields(body, common)
    fields["result"] = any_json(body, "result")
    if "secrets" in body:
        fields["secrets"] = secret_pointers(body, "secrets")
    return e.Completed(**fields)


def _stale_completion_ignored(body: dict[str, Any], common: _Common) -> e.Event:
    return e.StaleCompletionIgnored(
        **common,
        lost_attempt=optional(body, "lostAttempt", str),
        reason=optional(body, "error", str) or "no reason was given",
    )


_ENCODERS: Final[Mapping[EventKind, Callable[[dict[str, Any], Any], None]]] = {
    EventKind.SCHEDULED: _write_scheduled,
    EventKind.CREATED: _write_described,
    EventKind.RETRIED: _write_described,
    EventKind.STARTED: _write_started,
    EventKind.PROGRESS: _write_attempt,
    EventKind.LOGGED: _write_attempt,
    EventKind.HEARTBEAT: _write_attempt,
    EventKind.RETRY: _write_errored,
    EventKind.COMPLETED: _write_completed,
    EventKind.FAILED: _write_errored,
    EventKind.DEAD: _write_errored,
    EventKind.STALE: _write_errored,
    EventKind.STALE_COMPLETION_IGNORED: _write_stale_completion_ignored,
    **{decision.kind: _write_decided for decision in e.Decided.__subclasses__()},
}

_DECODERS: Final[Mapping[str, _Decoder]] = {
    EventKind.SCHEDULED: _scheduled,
    EventKind.CREATED: _described(e.Created),
    EventKind.RETRIED: _described(e.Retried),
    EventKind.STARTED: _started,
    EventKind.PROGRESS: _attempted(e.Progressed),
    EventKind.LOGGED: _attempted(e.Logged),
    EventKind.HEARTBEAT: _attempted(e.Heartbeat),
    EventKind.RETRY: _retry_scheduled,
    EventKind.COMPLETED: _completed,
    EventKind.FAILED: _errored(e.Failed),
    EventKind.DEAD: _errored(e.Dead),
    EventKind.STALE: _errored(e.Stale),
    EventKind.STALE_COMPLETION_IGNORED: _stale_completion_ignored,
    **{decision.kind: _decided(decision) for decision in e.Decided.__subclasses__()},
}
