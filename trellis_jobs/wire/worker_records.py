"""Records of worker processes ⇄ JSON."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from trellis_jobs.model.worker_record import (
    Directive,
    JobIds,
    QueueSlots,
    Verdict,
    WorkerProfile,
    WorkerRecord,
)
from trellis_jobs.model.worker_states import DIRECTIVES, WorkerState
from trellis_jobs.wire.fields import (
    BadField,
    add_present,
    app_version,
    as_token,
    count,
    dumps,
    loads,
    objects,
    optional,
    required,
    timestamp,
    token,
)

if TYPE_CHECKING:
    from trellis_jobs.model.subjects import WorkerSubject

_MILLISECOND: Final = timedelta(milliseconds=1)
_MAX_MS: Final = 10**12
_MAX_QUEUES: Final = 10_000
_MAX_LABELS: Final = 100
_MAX_JOBS: Final = 100_000


def encode(record: WorkerRecord) -> bytes:
    profile = record.profile
    body: dict[str, Any] = {
        "service": profile.service,
        "instanceId": profile.instance,
        "hostname": profile.hostname,
        "pid": profile.pid,
        "startedAt": profile.started_at,
        "labels": list(profile.labels),
        "queues": [{"type": q.job_type, "concurrency": q.concurrency} for q in profile.queues],
        "concurrency": profile.concurrency,
        "state": record.state,
        "beat": record.beat,
        "activeJobs": record.active_jobs,
        "activeJobIds": _ids_to_json(record.active),
        "heldJobIds": _ids_to_json(record.held),
        "intervalMs": profile.interval // _MILLISECOND,
        "deadAfterMs": profile.dead_after // _MILLISECOND,
    }
    add_present(body, version=profile.version, appVersion=profile.app_version)
    if profile.other_queues is not None:
        body["otherQueues"] = list(profile.other_queues)
    if record.directive is not None:
        body["wanted"] = _directive_to_json(record.directive)
    if record.verdict is not None:
        body["verdict"] = _verdict_to_json(record.verdict)
    return dumps(body)


def decode(data: bytes, *, expected: WorkerSubject) -> WorkerRecord | str:
    """Return the record, or why the bytes are not one."""
    try:
        body = loads(data)
        record = WorkerRecord(
            profile=_profile(body),
            state=_state(body, "state"),
            beat=count(body, "beat"),
            active=_ids(body, "activeJobIds"),
            held=_ids(body, "heldJobIds"),
            directive=_directive(body),
            verdict=_verdict(body),
        )
    except BadField as error:
        return str(error)
    named = (record.profile.service, record.profile.instance)
    if named != (expected.service, expected.instance):
        return f"the body names {named[0]}/{named[1]}, the subject {expected}"
    return record


def _profile(body: dict[str, Any]) -> WorkerProfile:
    queues = objects(body, "queues")
    if len(queues) > _MAX_QUEUES:
        raise BadField(f"queues must have at most {_MAX_QUEUES} entries")
    dead_after = count(body, "deadAfterMs", minimum=1)
    return WorkerProfile(
        service=token(body, "service"),
        instance=token(body, "instanceId"),
        hostname=required(body, "hostname", str),
        pid=count(body, "pid"),
        started_at=timestamp(body, "startedAt"),
        queues=tuple(
            QueueSlots(token(queue, "type"), count(queue, "concurrency")) for queue in queues
        ),
        concurrency=count(body, "concurrency"),
        other_queues=_other_queues(body),
        version=optional(body, "version", str),
        app_version=app_version(body),
        labels=_labels(body),
        dead_after=timedelta(milliseconds=min(dead_after, _MAX_MS)),
    )


def _other_queues(body: dict[str, Any]) -> tuple[str, ...] | None:
    queues = optional(body, "otherQueues", list)
    if queues is None:
        return None
    if len(queues) > _MAX_QUEUES or not all(isinstance(queue, str) for queue in queues):
        raise BadField(f"otherQueues must be a list of at most {_MAX_QUEUES} strings")
    return tuple(as_token("otherQueues", queue) for queue in queues)


def _labels(body: dict[str, Any]) -> tuple[str, ...]:
    labels = optional(body, "labels", list) or []
    if len(labels) > _MAX_LABELS or not all(isinstance(label, str) for label in labels):
        raise BadField(f"labels must be a list of at most {_MAX_LABELS} strings")
    return tuple(labels)


def _state(body: dict[str, Any], name: str) -> WorkerState:
    text = required(body, name, str)
    try:
        return WorkerState(text)
    except ValueError:
        raise BadField(f"{name} {text!r:.80} is not known") from None


def _ids_to_json(ids: JobIds) -> dict[str, list[str]]:
    return {job_type: list(found) for job_type, found in ids.items()}


def _ids(body: dict[str, Any], name: str) -> JobIds:
    found: dict[str, Any] = required(body, name, dict)
    for job_type, ids in found.items():
        as_token(name, job_type)
        if not isinstance(ids, list) or not all(isinstance(each, str) for each in ids):
            raise BadField(f"{name} must have a list of job ids for each job type")
        for each in ids:
            as_token(name, each)
    if sum(map(len, found.values())) > _MAX_JOBS:
        raise BadField(f"{name} must have at most {_MAX_JOBS} job ids")
    return {job_type: tuple(ids) for job_type, ids in found.items()}


def _directive_to_json(directive: Directive) -> dict[str, Any]:
    body: dict[str, Any] = {
        "state": directive.state,
        "epoch": directive.epoch,
        "at": directive.at,
    }
    add_present(body, by=directive.by, reason=directive.reason)
    return body


def _directive(body: dict[str, Any]) -> Directive | None:
    wanted = optional(body, "wanted", dict)
    if wanted is None:
        return None
    state = _state(wanted, "state")
    if state not in DIRECTIVES:
        raise BadField(f"a worker cannot be directed to be {state}")
    return Directive(
        state=state,
        epoch=count(wanted, "epoch", minimum=1),
        at=timestamp(wanted, "at"),
        by=optional(wanted, "by", str),
        reason=optional(wanted, "reason", str),
    )


def _verdict_to_json(verdict: Verdict) -> dict[str, Any]:
    return {
        "dead": True,
        "by": verdict.by,
        "at": verdict.at,
        "lostJobIds": _ids_to_json(verdict.lost),
        "recovered": verdict.is_recovered,
    }


def _verdict(body: dict[str, Any]) -> Verdict | None:
    verdict = optional(body, "verdict", dict)
    if verdict is None:
        return None
    return Verdict(
        by=required(verdict, "by", str),
        at=timestamp(verdict, "at"),
        lost=_ids(verdict, "lostJobIds"),
        is_recovered=optional(verdict, "recovered", bool) or False,
    )
