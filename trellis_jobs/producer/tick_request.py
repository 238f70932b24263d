"""The job that a schedule creates for one of its ticks, or because someone triggered it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from trellis_jobs.errors import KeyUnresolvable, NotAdmitted, PayloadTooLarge
from trellis_jobs.producer.submission import Request

if TYPE_CHECKING:
    from datetime import datetime

    from trellis_jobs.contract.declaration import JobType
    from trellis_jobs.model.schedules.record import ScheduleRecord

# Why a job cannot be created, also if it is tried again.
TICK_REFUSALS: Final = (NotAdmitted, KeyUnresolvable, PayloadTooLarge)


def tick_request(
    queue: JobType[Any, Any], record: ScheduleRecord, job_id: str, tick: datetime
) -> Request:
    """Raises KeyUnresolvable. The payload was checked when the schedule was made."""
    definition, policy = record.definition, queue.key_policy
    return Request(
        queue,
        definition.payload,
        job_id,
        key=None if policy is None else policy.template.resolve(definition.payload),
        run_at=tick,
        schedule=record.address.schedule,
        version=definition.version,
    )
