"""Record what a command did without an admin runtime, if its credentials permit it."""

from __future__ import annotations

from collections.abc import Iterable

from jobs_admin.api.views.audit import AuditedChange
from jobs_admin.audit.trail import AuditTrail
from trellis_jobs.contract.features import Features
from trellis_jobs.environment import new_id
from trellis_jobs.jetstream.client.connection import Connection
from trellis_jobs.jetstream.control.records import ControlRecords
from trellis_jobs.model.audit_recorder import AuditRecorder


async def record_changes(
    connection: Connection,
    features: Features,
    changes: Iterable[AuditedChange],
    *,
    by: str | None,
    reason: str | None = None,
) -> None:
    """A change that cannot be recorded stays, and the problem is logged."""
    records = ControlRecords(connection, supports_ttl=features.message_ttl)
    trail = AuditTrail(records, AuditRecorder.COMMAND, new_id)
    for change in changes:
        await trail.record(change.model_copy(update={"by": by, "reason": reason}))
