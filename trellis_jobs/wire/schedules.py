"""Records and definitions of schedules ⇄ JSON.

Unknown fields of a record and of its definition are preserved. A record that cannot be read is
reported, and processes leave its schedule to others: they may be of a newer version, which knows
its time zone or policy.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, TypeVar

from trellis_jobs.errors import DeclarationError
from trellis_jobs.model.schedules.definition import (
    DEFAULT_MAX_CATCH_UP,
    MAX_MAX_CATCH_UP,
    CatchUp,
    CronTiming,
    IntervalTiming,
    Overlap,
    ScheduleDefinition,
    Timing,
)
from trellis_jobs.model.schedules.record import (
    MAX_RUNS,
    Cancellation,
    Origin,
    Pause,
    PlannedJob,
    Run,
    ScheduleRecord,
    SkipReason,
)
from trellis_jobs.wire.fields import (
    MILLISECOND,
    BadField,
    add_present,
    any_json,
    count,
    dumps,
    loads,
    milliseconds,
    objects,
    optional,
    optional_timestamp,
    required,
    secret_pointers,
    timestamp,
    token,
    unknown_fields,
    version,
)

if TYPE_CHECKING:
    from enum import StrEnum

    from trellis_jobs.model.schedules.address import ScheduleAddress

E = TypeVar("E", bound="StrEnum")

# Those of one decision, and jobs that someone triggered.
_MAX_UNFINISHED: Final = 2 * MAX_MAX_CATCH_UP
_RECORD: Final = frozenset(
    [
        "service",
        "jobType",
        "schedule",
        "definition",
        "origin",
        "by",
        "decidedUntil",
        "unfinished",
        "paused",
        "lastJobId",
        "lastTriggeredJobId",
        "runs",
        "createdAt",
        "updatedAt",
    ]
)
_DEFINITION: Final = frozenset(
    [
        "cron",
        "timeZone",
        "everyMs",
        "payload",
        "payloadVersion",
        "secrets",
        "jitterMs",
        "start",
        "end",
        "catchUp",
        "maxCatchUp",
        "overlap",
    ]
)


def encode(record: ScheduleRecord) -> bytes:
    address = record.address
    body: dict[str, Any] = {
        **record.unknown,
        "service": address.service,
        "jobType": address.job_type,
        "schedule": address.schedule,
        "definition": definition_to_json(record.definition),
        "origin": record.origin,
        "decidedUntil": record.decided_until,
        "unfinished": [_job_to_json(job) for job in record.unfinished],
        "runs": [_run_to_json(run) for run in record.runs],
        "createdAt": record.created_at,
        "updatedAt": record.updated_at,
    }
    add_present(
        body,
        by=record.by,
        lastJobId=record.last_job,
        lastTriggeredJobId=record.last_triggered,
    )
    if record.paused is not None:
        body["paused"] = _pause_to_json(record.paused)
    return dumps(body)


def decode(data: bytes, *, expected: ScheduleAddress) -> ScheduleRecord | str:
    """Return the record, or why the bytes are not one."""
    try:
        body = loads(data)
        named = (token(body, "service"), token(body, "jobType"), token(body, "schedule"))
        if named != (expected.service, expected.job_type, expected.schedule):
            return f"the body names {'/'.join(named)}, the subject {expected}"
        return _record(body, expected)
    except BadField as error:
        return str(error)


def definition_to_json(definition: ScheduleDefinition) -> dict[str, Any]:
    """Fields that have their defaults are left out, but not the policies, which people read."""
    body: dict[str, Any] = {
        **definition.unknown,
        **_timing_to_json(definition.timing),
        "payload": definition.payload,
        "catchUp": definition.catch_up.value,
        "overlap": definition.overlap.value,
    }
    if definition.version != 1:
        body["payloadVersion"] = definition.version
    if definition.secrets:
        body["secrets"] = list(definition.secrets)
    if definition.jitter:
        body["jitterMs"] = definition.jitter // MILLISECOND
    if definition.max_catch_up != DEFAULT_MAX_CATCH_UP:
        body["maxCatchUp"] = definition.max_catch_up
    add_present(body, start=definition.start, end=definition.end)
    return body


def definition_from_json(body: dict[str, Any]) -> ScheduleDefinition:
    """Raises BadField."""
    try:
        return ScheduleDefinition(
            timing=_timing(body),
            payload=any_json(body, "payload"),
            version=version(body),
            secrets=secret_pointers(body, "secrets"),
            jitter=milliseconds(body, "jitterMs") if "jitterMs" in body else timedelta(),
            start=optional_timestamp(body, "start"),
            end=optional_timestamp(body, "end"),
            catch_up=_one_of(CatchUp, body, "catchUp"),
            max_catch_up=(
                count(body, "maxCatchUp") if "maxCatchUp" in body else DEFAULT_MAX_CATCH_UP
            ),
            overlap=_one_of(Overlap, body, "overlap"),
            unknown=unknown_fields(body, _DEFINITION),
        )
    except DeclarationError as error:
        raise BadField(f"definition: {error}") from None


def _record(body: dict[str, Any], address: ScheduleAddress) -> ScheduleRecord:
    return ScheduleRecord(
        address=address,
        definition=definition_from_json(required(body, "definition", dict)),
        origin=_one_of(Origin, body, "origin"),
        by=optional(body, "by", str),
        decided_until=timestamp(body, "decidedUntil"),
        unfinished=tuple(_job(each) for each in _at_most(_MAX_UNFINISHED, body, "unfinished")),
        paused=_pause(body),
        last_job=_optional_token(body, "lastJobId"),
        last_triggered=_optional_token(body, "lastTriggeredJobId"),
        runs=tuple(_run(each) for each in objects(body, "runs")[-MAX_RUNS:]),
        created_at=timestamp(body, "createdAt"),
        updated_at=timestamp(body, "updatedAt"),
        unknown=unknown_fields(body, _RECORD),
    )


def _timing_to_json(timing: Timing) -> dict[str, Any]:
    if isinstance(timing, CronTiming):
        return {"cron": timing.expression, "timeZone": timing.zone}
    return {"everyMs": timing.every // MILLISECOND}


def _timing(body: dict[str, Any]) -> Timing:
    if "cron" in body:
        return CronTiming(required(body, "cron", str), required(body, "timeZone", str))
    return IntervalTiming(milliseconds(body, "everyMs"))


def _job_to_json(job: PlannedJob) -> dict[str, Any]:
    body: dict[str, Any] = {"jobId": job.job_id, "tick": job.tick}
    for name, cancel in (("cancel", job.cancel), ("cancelTriggered", job.cancel_triggered)):
        if cancel is not None:
            body[name] = {"jobId": cancel.job_id, "evenIfRunning": cancel.even_if_running}
    if job.triggered:
        body["triggered"] = True
    add_present(body, by=job.by)
    return body


def _job(body: dict[str, Any]) -> PlannedJob:
    return PlannedJob(
        job_id=token(body, "jobId"),
        tick=timestamp(body, "tick"),
        cancel=_cancellation(body, "cancel"),
        cancel_triggered=_cancellation(body, "cancelTriggered"),
        triggered=optional(body, "triggered", bool) or False,
        by=optional(body, "by", str),
    )


def _cancellation(body: dict[str, Any], name: str) -> Cancellation | None:
    cancel = optional(body, name, dict)
    if cancel is None:
        return None
    return Cancellation(token(cancel, "jobId"), required(cancel, "evenIfRunning", bool))


def _run_to_json(run: Run) -> dict[str, Any]:
    body: dict[str, Any] = {"tick": run.tick, "at": run.at}
    if run.count != 1:
        body["count"] = run.count
    if run.triggered:
        body["triggered"] = True
    add_present(body, jobId=run.job_id, skipped=run.skipped, refused=run.refused, by=run.by)
    return body


def _run(body: dict[str, Any]) -> Run:
    return Run(
        tick=timestamp(body, "tick"),
        at=timestamp(body, "at"),
        job_id=_optional_token(body, "jobId"),
        skipped=None if body.get("skipped") is None else _one_of(SkipReason, body, "skipped"),
        count=count(body, "count", minimum=1) if "count" in body else 1,
        refused=optional(body, "refused", str),
        triggered=optional(body, "triggered", bool) or False,
        by=optional(body, "by", str),
    )


def _pause_to_json(pause: Pause) -> dict[str, Any]:
    body: dict[str, Any] = {"since": pause.since}
    add_present(body, until=pause.until, by=pause.by, reason=pause.reason)
    return body


def _pause(body: dict[str, Any]) -> Pause | None:
    paused = optional(body, "paused", dict)
    if paused is None:
        return None
    return Pause(
        since=timestamp(paused, "since"),
        until=optional_timestamp(paused, "until"),
        by=optional(paused, "by", str),
        reason=optional(paused, "reason", str),
    )


def _optional_token(body: dict[str, Any], name: str) -> str | None:
    return None if body.get(name) is None else token(body, name)


def _at_most(limit: int, body: dict[str, Any], name: str) -> list[dict[str, Any]]:
    found = objects(body, name)
    if len(found) > limit:
        raise BadField(f"{name} must have at most {limit} entries")
    return found


def _one_of(kind: type[E], body: dict[str, Any], name: str) -> E:
    text = required(body, name, str)
    try:
        return kind(text)
    except ValueError:
        raise BadField(f"{name} {text!r:.80} is not known") from None
