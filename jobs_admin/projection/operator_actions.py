"""Which events of the log are actions of operators, and which of them the audit lists.

A service that cancels or moves its own job writes its name as `by`, without a request id. The jobs
that an operation changes are not listed one by one: the record of the operation says who started it
and why, and each job's event has the id of the operation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from jobs_admin.api.views.audit import AuditVerb
from jobs_admin.api.views.operations import is_operation_id
from trellis_jobs.model import events as e

if TYPE_CHECKING:
    from datetime import datetime

_VERBS: Final[dict[type[e.Event], AuditVerb]] = {
    e.Cancelled: AuditVerb.CANCEL,
    e.Dismissed: AuditVerb.DISMISS,
    e.Retried: AuditVerb.RETRY,
    e.Scheduled: AuditVerb.RESCHEDULE,
    e.Created: AuditVerb.RUN_NOW,
}


def operator_action(
    event: e.Described | e.Decided, stored_at: datetime, *, is_first: bool = False
) -> AuditVerb | None:
    """What an operator did with this event; None if no operator did, or an operation.

    `is_first`: it is the first event of its job, so that the operator created the job.
    `stored_at` is the server's time: a job that is moved to an earlier time is to run at once.
    """
    is_own = event.request is None and event.by in (None, event.job.service)
    if is_own or is_operation_id(event.request):
        return None
    if is_first and isinstance(event, e.Created | e.Scheduled):
        return AuditVerb.CREATE
    if isinstance(event, e.Scheduled) and event.run_at <= stored_at:
        return AuditVerb.RUN_NOW
    return _VERBS.get(type(event))
