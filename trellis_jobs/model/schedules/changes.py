"""Changes that services and operators make to the record of a schedule.

Each returns the record to write and the time for which to set the alarm, which is set first. None
of them decides about ticks that are due; `fire` does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from trellis_jobs.model.schedules.firing import alarm_time, resumed, skip_until
from trellis_jobs.model.schedules.record import (
    Decision,
    Origin,
    Pause,
    PlannedJob,
    Run,
    ScheduleRecord,
    SkipReason,
    with_runs,
)
from trellis_jobs.model.values import Value, replace

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from datetime import datetime

    from trellis_jobs.model.schedules.address import ScheduleAddress
    from trellis_jobs.model.schedules.definition import ScheduleDefinition

# Jobs that were triggered and are not created yet.
MAX_TRIGGERED: Final = 100


class Author(Value, frozen=True):
    """Whether the contract or someone at run time defines a schedule, and who."""

    origin: Origin
    by: str | None = None


def create(
    address: ScheduleAddress, definition: ScheduleDefinition, *, author: Author, now: datetime
) -> Decision:
    """A schedule that did not exist. Its first tick is the first one after `now`."""
    return _decision(
        ScheduleRecord(
            address=address,
            definition=definition,
            origin=author.origin,
            by=author.by,
            decided_until=now,
            created_at=now,
            updated_at=now,
        )
    )


def put(
    record: ScheduleRecord, definition: ScheduleDefinition, *, author: Author, now: datetime
) -> Decision:
    """Replace the definition. An equal one changes nothing.

    With another timing, the ticks before `now` are those of another schedule and have no jobs any
    more. With the same timing, ticks that were missed before the change are still caught up, with
    the new payload: a deploy during which a nightly job was due does not lose that job.
    """
    if record.definition.fingerprint == definition.fingerprint and record.origin is author.origin:
        return _decision(record)
    if record.definition.when != definition.when:
        record = skip_until(record, now, SkipReason.CHANGED, now=now)
    return _decision(
        replace(
            record,
            definition=definition,
            origin=author.origin,
            by=author.by,
            updated_at=now,
        )
    )


def pause(record: ScheduleRecord, pause: Pause) -> Decision:
    """No tick creates a job until the pause ends. Jobs that were decided before are created."""
    return _decision(replace(record, paused=pause, updated_at=pause.since))


def resume(record: ScheduleRecord, *, now: datetime) -> Decision:
    """End a pause. The catch-up policy decides about the ticks of the pause."""
    if record.paused is None:
        return _decision(record)
    return _decision(replace(resumed(record, now), updated_at=now))


class Refused(Value, frozen=True):
    """Why a change was not made."""

    reason: str


def trigger(
    record: ScheduleRecord, job_id: str, *, by: str | None, now: datetime
) -> Decision | Refused:
    """Create a job now, whatever the timing, a pause or the overlap policy say.

    The same job id a second time changes nothing.
    """
    known = (*(job.job_id for job in record.unfinished), *(run.job_id for run in record.runs))
    if job_id in known:
        return _decision(record)
    if sum(job.triggered for job in record.unfinished) >= MAX_TRIGGERED:
        return Refused(f"{MAX_TRIGGERED} triggered jobs have not been created yet")
    job = PlannedJob(job_id=job_id, tick=now, triggered=True, by=by)
    run = Run(tick=now, at=now, job_id=job_id, triggered=True, by=by)
    return _decision(
        replace(
            record,
            unfinished=(*record.unfinished, job),
            last_triggered=job_id,
            runs=with_runs(record, run),
            updated_at=now,
        )
    )


def finish(
    record: ScheduleRecord,
    created: Collection[str],
    *,
    refused: Mapping[str, str] | None = None,
    now: datetime,
) -> ScheduleRecord:
    """The record after jobs were created. `refused` says why others cannot be, by job id.

    Without this write, jobs would be created again by the next alarm, which may come after the
    finished job was removed from the log.
    """
    reasons = refused or {}
    done = {*created, *reasons}
    return replace(
        record,
        unfinished=tuple(job for job in record.unfinished if job.job_id not in done),
        runs=tuple(_with_reason(run, reasons) for run in record.runs),
        updated_at=now,
    )


def _with_reason(run: Run, reasons: Mapping[str, str]) -> Run:
    reason = None if run.job_id is None else reasons.get(run.job_id)
    return run if reason is None else replace(run, refused=reason)


def _decision(record: ScheduleRecord) -> Decision:
    return Decision(record, alarm_time(record))
