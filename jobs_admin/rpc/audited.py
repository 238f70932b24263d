"""Records the changes that operators make through RPCs, in one place around their methods.

Changes of one job are not recorded here: their events say who made them, and why.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final

from jobs_admin.api.contract import RPCS, Rpcs
from jobs_admin.api.error_envelope import Fault
from jobs_admin.api.views.audit import AuditedChange, AuditTarget, AuditVerb
from jobs_admin.api.views.workers import DirectiveOutcome
from trellis_jobs.model.worker_states import WorkerState

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from jobs_admin.api import inputs
    from jobs_admin.api.views.jobs import JobSecrets
    from jobs_admin.api.views.operations import OneOperation, Operated
    from jobs_admin.api.views.schedules import TriggeredSchedule
    from jobs_admin.api.views.workers import DirectedWorkers
    from jobs_admin.audit.trail import AuditTrail
    from jobs_admin.rpc.router import Caller, Method

Fields = dict[str, Any]

# The events of these changes are their records (projection/operator_actions.py).
RECORDED_AS_EVENTS: Final = frozenset(
    rpc.name
    for rpc in (
        Rpcs.CANCEL,
        Rpcs.RETRY,
        Rpcs.REPLAY_DLQ,
        Rpcs.DISMISS_DLQ,
        Rpcs.RESCHEDULE,
        Rpcs.RUN_NOW,
    )
)
_DIRECTIVES: Final = {
    WorkerState.RUNNING: AuditVerb.RUN,
    WorkerState.QUIET: AuditVerb.QUIET,
    WorkerState.TERMINATE: AuditVerb.TERMINATE,
}


def audited(methods: Mapping[str, Method], trail: AuditTrail) -> dict[str, Method]:
    """The methods; those in the table below record what they did before they reply."""
    return {
        name: _recording(name, method, trail) if name in RECORDS else method
        for name, method in methods.items()
    }


def _recording(name: str, method: Method, trail: AuditTrail) -> Method:
    describe, is_change = RECORDS[name], RPCS[name].is_change

    async def recorded(request: Any, caller: Caller) -> Any:
        reply = await method(request, caller)
        who = {"by": request.by or caller.session or "operator", "request_id": caller.request_id}
        reason = getattr(request, "reason", None)
        for fields in describe(request, reply):
            problem = await trail.record(AuditedChange(**fields, **who, reason=reason))
            if problem is not None and not is_change:
                # A change has left its traces. Secrets that were shown would have left none.
                raise Fault(f"secrets are not shown, because this cannot be recorded: {problem}")
        return reply

    return recorded


def _queue(verb: AuditVerb) -> Callable[[inputs.QueueInput, Any], Iterator[Fields]]:
    def describe(request: inputs.QueueInput, _: Any) -> Iterator[Fields]:
        of = {"service": request.service, "type": request.type}
        yield {"verb": verb, "target": AuditTarget.QUEUE, **of}

    return describe


def _schedule(verb: AuditVerb) -> Callable[[inputs.ChangeScheduleInput, Any], Iterator[Fields]]:
    def describe(request: inputs.ChangeScheduleInput, _: Any) -> Iterator[Fields]:
        of = {"service": request.service, "type": request.type, "id": request.name}
        yield {"verb": verb, "target": AuditTarget.SCHEDULE, **of}

    return describe


def _triggered(request: inputs.ChangeScheduleInput, reply: TriggeredSchedule) -> Iterator[Fields]:
    for fields in _schedule(AuditVerb.TRIGGER)(request, reply):
        yield {**fields, "job_id": reply.job_id}


def _released(request: inputs.ReleaseInput, _: Any) -> Iterator[Fields]:
    of = {"service": request.service, "type": request.type, "id": request.key}
    yield {"verb": AuditVerb.RELEASE, "target": AuditTarget.KEY, **of, "job_id": request.job_id}


def _directed(request: inputs.DirectInput, reply: DirectedWorkers) -> Iterator[Fields]:
    directed = [
        (each.service, each.instance_id)
        for each in reply.workers
        if each.outcome is DirectiveOutcome.DIRECTED
    ]
    yield from directed_workers(request.state, directed)


def directed_workers(state: WorkerState, workers: list[tuple[str, str]]) -> Iterator[Fields]:
    """One for each service; its workers are named if it is only one."""
    names = dict(workers)
    for service, count in Counter(service for service, _ in workers).items():
        yield {
            "verb": _DIRECTIVES[state],
            "target": AuditTarget.WORKER,
            "service": service,
            "id": names[service] if count == 1 else None,
            "count": count,
        }


def _operation(_: Any, reply: Operated) -> Iterator[Fields]:
    """Nothing for a dry run."""
    started = reply.operation
    if started is not None:
        yield {
            "verb": started.verb.value,
            "target": AuditTarget.OPERATION,
            "service": started.filter.service,
            "type": started.filter.type,
            "id": started.id,
            "count": started.total,
        }


def _stopped(request: inputs.StopInput, reply: OneOperation) -> Iterator[Fields]:
    of = reply.operation.filter
    yield {
        "verb": AuditVerb.STOP,
        "target": AuditTarget.OPERATION,
        "service": of.service,
        "type": of.type,
        "id": request.id,
    }


def _revealed(_: Any, reply: JobSecrets) -> Iterator[Fields]:
    of = {"service": reply.service, "type": reply.type, "id": reply.id}
    yield {"verb": AuditVerb.REVEAL, "target": AuditTarget.JOB, **of}


RECORDS: Final[Mapping[str, Callable[[Any, Any], Iterator[Fields]]]] = {
    Rpcs.PAUSE_QUEUE.name: _queue(AuditVerb.PAUSE),
    Rpcs.RESUME_QUEUE.name: _queue(AuditVerb.RESUME),
    Rpcs.PUT_SCHEDULE.name: _schedule(AuditVerb.PUT),
    Rpcs.PAUSE_SCHEDULE.name: _schedule(AuditVerb.PAUSE),
    Rpcs.RESUME_SCHEDULE.name: _schedule(AuditVerb.RESUME),
    Rpcs.TRIGGER_SCHEDULE.name: _triggered,
    Rpcs.DELETE_SCHEDULE.name: _schedule(AuditVerb.DELETE),
    Rpcs.RELEASE_KEY.name: _released,
    Rpcs.DIRECT_WORKERS.name: _directed,
    Rpcs.OPERATE.name: _operation,
    Rpcs.STOP_OPERATION.name: _stopped,
    Rpcs.GET_SECRETS.name: _revealed,
}
