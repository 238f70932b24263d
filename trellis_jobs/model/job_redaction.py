"""Redact the secrets in the payloads and results of jobs and events."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trellis_jobs.model.events import Completed, Described, Event
from trellis_jobs.model.redaction import redacted
from trellis_jobs.model.values import Value, replace

if TYPE_CHECKING:
    from trellis_jobs.model.job import Job, Run


class SecretPointers(Value, frozen=True):
    """The secrets that a queue declares now. Jobs store those declared at their creation."""

    payload: tuple[str, ...] = ()
    result: tuple[str, ...] = ()


NO_SECRETS = SecretPointers()


def redact_job(job: Job, declared: SecretPointers = NO_SECRETS) -> Job:
    """Return the job with `[secret]` in place of its secrets, in all of its runs."""
    return replace(
        job,
        run=_redact_run(job.run, declared),
        earlier_runs=tuple(_redact_run(run, declared) for run in job.earlier_runs),
    )


def redact_event(event: Event, declared: SecretPointers = NO_SECRETS) -> Event:
    """Return the event with `[secret]` in place of its secrets."""
    if isinstance(event, Described):
        return replace(event, payload=redacted(event.payload, (*event.secrets, *declared.payload)))
    if isinstance(event, Completed):
        return replace(event, result=redacted(event.result, (*event.secrets, *declared.result)))
    return event


def _redact_run(run: Run, declared: SecretPointers) -> Run:
    return replace(
        run,
        payload=redacted(run.payload, (*run.secrets, *declared.payload)),
        result=redacted(run.result, (*run.result_secrets, *declared.result)),
    )
