"""Records the changes that operators make through RPCs, in one place around their methods.

Changes of one job are not recorded here: their events say who made them, and why.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeAlias

from jobs_admin.api.contract import RPCS, Rpcs
from jobs_admin.api.error_envelope import Fault
from jobs_admin.api.views.audit import AuditedChange, AuditTarget, AuditVerb
from jobs_admin.api.views.schedules import TriggeredSchedule
from jobs_admin.audit.changes import queue_change, worker_changes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from jobs_admin.api import inputs, schedule_inputs
    from jobs_admin.api.views.jobs import JobSecrets
    from jobs_admin.api.views.operations import OneOperation, Operated, OperationView
    from jobs_admin.api.views.workers import DirectedWorkers
    from jobs_admin.audit.trail import AuditTrail
    from jobs_admin.rpc.router import Caller, Method

# What a request did, from its input and its reply.
Describe: TypeAlias = "Callable[[Any, Any], Iterable[AuditedChange]]"

# The events of these changes are their records (projection/operator_actions.py).
RECORDED_AS_EVENTS: Final = frozenset(
    rpc.name
    for rpc in (
        Rpcs.CREATE,
        Rpcs.CANCEL,
        Rpcs.RETRY,
        Rpcs.REPLAY_DLQ,
        Rpcs.DISMISS_DLQ,
        Rpcs.RESCHEDULE,
        Rpcs.RUN_NOW,
    )
)


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
        who = {
            "by": request.by or caller.session or "operator",
            "reason": getattr(request, "reason", None),
            "request_id": caller.request_id,
        }
        for change in describe(request, reply):
            problem = await trail.record(change.model_copy(update=who))
            if problem is not None and not is_change:
                # A change has left its traces. Secrets that were shown would have left none.
                raise Fault(f"secrets are not shown, because this cannot be recorded: {problem}")
        return reply

    return recorded


def _queue(verb: AuditVerb) -> Describe:
    return lambda request, _: [queue_change(verb, request.service, request.type)]


def _schedule(verb: AuditVerb) -> Describe:
    def describe(request: schedule_inputs.ScheduleInput, reply: Any) -> Iterator[AuditedChange]:
        yield AuditedChange(
            verb=verb,
            target=AuditTarget.SCHEDULE,
            service=request.service,
            type=request.type,
            id=request.name,
            job_id=reply.job_id if isinstance(reply, TriggeredSchedule) else None,
        )

    return describe


def _released(request: inputs.ReleaseInput, _: Any) -> Iterator[AuditedChange]:
    yield AuditedChange(
        verb=AuditVerb.RELEASE,
        target=AuditTarget.KEY,
        service=request.service,
        type=request.type,
        id=request.key,
        job_id=request.job_id,
    )


def _directed(request: inputs.DirectInput, reply: DirectedWorkers) -> Iterator[AuditedChange]:
    return worker_changes(request.state, reply.workers)


def _started(_: Any, reply: Operated) -> Iterator[AuditedChange]:
    """Nothing for a dry run."""
    if reply.operation is not None:
        yield _operation(reply.operation.verb, reply.operation)


def _stopped(_: Any, reply: OneOperation) -> Iterator[AuditedChange]:
    yield _operation(AuditVerb.STOP, reply.operation)


def _operation(verb: str, operation: OperationView) -> AuditedChange:
    return AuditedChange(
        verb=verb,
        target=AuditTarget.OPERATION,
        service=operation.filter.service,
        type=operation.filter.type,
        id=operation.id,
        count=operation.total,
    )


def _revealed(_: Any, reply: JobSecrets) -> Iterator[AuditedChange]:
    yield AuditedChange(
        verb=AuditVerb.REVEAL,
        target=AuditTarget.JOB,
        service=reply.service,
        type=reply.type,
        id=reply.id,
    )


RECORDS: Final[Mapping[str, Describe]] = {
    Rpcs.PAUSE_QUEUE.name: _queue(AuditVerb.PAUSE),
    Rpcs.RESUME_QUEUE.name: _queue(AuditVerb.RESUME),
    Rpcs.PUT_SCHEDULE.name: _schedule(AuditVerb.PUT),
    Rpcs.PAUSE_SCHEDULE.name: _schedule(AuditVerb.PAUSE),
    Rpcs.RESUME_SCHEDULE.name: _schedule(AuditVerb.RESUME),
    Rpcs.TRIGGER_SCHEDULE.name: _schedule(AuditVerb.TRIGGER),
    Rpcs.DELETE_SCHEDULE.name: _schedule(AuditVerb.DELETE),
    Rpcs.RELEASE_KEY.name: _released,
    Rpcs.DIRECT_WORKERS.name: _directed,
    Rpcs.OPERATE.name: _started,
    Rpcs.STOP_OPERATION.name: _stopped,
    Rpcs.GET_SECRETS.name: _revealed,
}
