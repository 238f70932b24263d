"""Jobs ⇄ JSON, as shown to operators and stored in the projection.

The fields are those of the original runtimes, and the errors, the earlier runs, the owner, the
snoozes and the time of the next try. Secrets in payloads and results are redacted: they stay in
the log.
"""

from __future__ import annotations

from typing import Any

from trellis_jobs.model.identity import JobAddress
from trellis_jobs.model.job import Job, LastSnooze, Run
from trellis_jobs.model.job_status import JobStatus
from trellis_jobs.model.notes import Notes
from trellis_jobs.model.redaction import redacted
from trellis_jobs.wire import attempts, concurrency, contexts, job_errors, notes, states, try_limits
from trellis_jobs.wire.fields import (
    MILLISECOND,
    add_present,
    app_version,
    count,
    milliseconds,
    objects,
    optional,
    optional_timestamp,
    required,
    secret_pointers,
    timestamp,
    version,
)


def to_json(job: Job) -> dict[str, Any]:
    """Encode a job without its log lines: there may be a thousand, and few readers need them."""
    status = job.status
    body: dict[str, Any] = {
        "id": job.id,
        "service": job.address.service,
        "type": job.address.job_type,
        "state": status.state,
        "context": contexts.to_json(job.context),
        "createdAt": job.created_at,
        "updatedAt": job.updated_at,
        "tries": status.tries,
        "maxTries": status.max_tries,
        "runSeq": status.run,
        **_run_json(job.run),
    }
    if status.deadline is not None:
        body["deadline"] = status.deadline
    if status.next_attempt_at is not None:
        body["nextAttemptAt"] = status.next_attempt_at
    if status.snoozes:
        body["snoozes"] = status.snoozes
    if status.owner is not None:
        body["attempt"] = attempts.to_json(status.owner)
    if job.run.errors:
        body["lastError"] = job_errors.text(job.run.errors[-1])
    if job.created_by is not None or job.created_reason is not None:
        add_present(body, createdBy=job.created_by, createdReason=job.created_reason)
    if job.earlier_runs:
        body["earlierRuns"] = [_run_json(run) for run in job.earlier_runs]
    return body


def from_json(body: dict[str, Any]) -> Job:
    """Decode the output of to_json(). Raises BadField for anything else."""
    return Job(
        address=JobAddress(
            required(body, "service", str), required(body, "type", str), required(body, "id", str)
        ),
        context=contexts.from_json(required(body, "context", dict)),
        status=JobStatus(
            states.from_json(body),
            count(body, "tries"),
            count(body, "maxTries"),
            count(body, "runSeq"),
            optional_timestamp(body, "deadline"),
            attempts.from_json(body),
            optional_timestamp(body, "nextAttemptAt"),
            count(body, "snoozes") if "snoozes" in body else 0,
        ),
        created_at=timestamp(body, "createdAt"),
        updated_at=timestamp(body, "updatedAt"),
        run=_run(body),
        earlier_runs=tuple(_run(run) for run in _listed(body, "earlierRuns")),
        created_by=optional(body, "createdBy", str),
        created_reason=optional(body, "createdReason", str),
    )


def _run_json(run: Run) -> dict[str, Any]:
    """Written out for speed: it runs for every projected job, and most fields are absent."""
    body: dict[str, Any] = {
        "payload": redacted(run.payload, run.secrets),
        "beganAt": run.began_at,
    }
    if run.result is not None:
        body["result"] = redacted(run.result, run.result_secrets)
    if run.errors:
        body["errors"] = [job_errors.to_json(error) for error in run.errors]
    _add_run_details(body, run)
    _add_outcome(body, run)
    if run.try_limits is not None:
        try_limits.add_to(body, run.try_limits)
    if run.concurrency is not None:
        body["concurrency"] = concurrency.to_json(run.concurrency)
    if run.queue_policy is not None:
        body["queuePolicy"] = concurrency.policy_to_json(run.queue_policy)
    if run.progress is not None:
        notes.add_to(body, Notes(run.progress))
    return body


def _add_run_details(body: dict[str, Any], run: Run) -> None:
    if run.run_at is not None:
        body["runAt"] = run.run_at
    if run.schedule is not None:
        body["schedule"] = run.schedule
    if run.deadline_after is not None:
        body["deadlineAfterMs"] = run.deadline_after // MILLISECOND
    if run.version != 1:
        body["payloadVersion"] = run.version
    if run.secrets:
        body["secrets"] = list(run.secrets)
    if run.result_secrets:
        body["resultSecrets"] = list(run.result_secrets)
    if run.snooze is not None:
        add_present(body, snoozeReason=run.snooze.reason, snoozedUntil=run.snooze.until)


def _add_outcome(body: dict[str, Any], run: Run) -> None:
    if run.started_at is not None:
        body["startedAt"] = run.started_at
    if run.instance is not None:
        body["instanceId"] = run.instance
    if run.app_version is not None:
        body["appVersion"] = run.app_version
    if run.ended_at is not None:
        body["completedAt"] = run.ended_at
    if run.ended_because is not None:
        body["reason"] = run.ended_because
    if run.begun_by is not None:
        body["begunBy"] = run.begun_by
    if run.ended_by is not None:
        body["by"] = run.ended_by


def _run(body: dict[str, Any]) -> Run:
    return Run(
        payload=body.get("payload"),
        began_at=timestamp(body, "beganAt"),
        run_at=optional_timestamp(body, "runAt"),
        schedule=optional(body, "schedule", str),
        deadline_after=(
            milliseconds(body, "deadlineAfterMs") if "deadlineAfterMs" in body else None
        ),
        snooze=_last_snooze(body) if "snoozeReason" in body else None,
        version=version(body),
        secrets=secret_pointers(body, "secrets"),
        result_secrets=secret_pointers(body, "resultSecrets"),
        started_at=optional_timestamp(body, "startedAt"),
        instance=optional(body, "instanceId", str),
        app_version=app_version(body),
        ended_at=optional_timestamp(body, "completedAt"),
        result=body.get("result"),
        errors=tuple(job_errors.from_json(error) for error in _listed(body, "errors")),
        progress=notes.from_json({"progress": body.get("progress")}).progress,
        ended_because=optional(body, "reason", str),
        begun_by=optional(body, "begunBy", str),
        ended_by=optional(body, "by", str),
        try_limits=try_limits.from_json(body),
        concurrency=concurrency.from_json(body),
        queue_policy=concurrency.policy_from_json(body),
    )


def _last_snooze(body: dict[str, Any]) -> LastSnooze:
    return LastSnooze(required(body, "snoozeReason", str), optional_timestamp(body, "snoozedUntil"))


def _listed(body: dict[str, Any], name: str) -> list[dict[str, Any]]:
    return objects(body, name) if name in body else []
