"""Describes changes that operators make through the admin runtime, or by a command without one."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from jobs_admin.api.views.audit import AuditedChange, AuditTarget, AuditVerb
from jobs_admin.api.views.workers import DirectiveOutcome
from trellis_jobs.model.worker_states import WorkerState

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from jobs_admin.api.views.workers import DirectedWorker

_DIRECTIVES: Final = {
    WorkerState.RUNNING: AuditVerb.RUN,
    WorkerState.QUIET: AuditVerb.QUIET,
    WorkerState.TERMINATE: AuditVerb.TERMINATE,
}


def queue_change(verb: AuditVerb, service: str, job_type: str) -> AuditedChange:
    return AuditedChange(verb=verb, target=AuditTarget.QUEUE, service=service, type=job_type)


def worker_changes(
    state: WorkerState, workers: Iterable[DirectedWorker]
) -> Iterator[AuditedChange]:
    """One for each service whose workers were directed. A single worker is named."""
    directed = [each for each in workers if each.outcome is DirectiveOutcome.DIRECTED]
    names = {each.service: each.instance_id for each in directed}
    for service, count in Counter(each.service for each in directed).items():
        yield AuditedChange(
            verb=_DIRECTIVES[state],
            target=AuditTarget.WORKER,
            service=service,
            id=names[service] if count == 1 else None,
            count=count,
        )
