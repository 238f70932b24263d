"""The records of schedules as operators see them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jobs_admin.api.views.schedules import (
    ScheduleDefinitionView,
    ScheduleDetailView,
    SchedulePauseView,
    ScheduleRunView,
    ScheduleView,
    TickView,
)
from trellis_jobs.model.redaction import redacted
from trellis_jobs.model.schedules.description import (
    describe,
    describe_catch_up,
    describe_overlap,
)
from trellis_jobs.model.schedules.upcoming import next_upcoming, upcoming
from trellis_jobs.wire.schedules import definition_to_json

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime, timedelta

    from jobs_admin.schedules.known_queues import KnownQueues
    from jobs_admin.schedules.registry import KnownSchedule
    from trellis_jobs.model.schedules.record import Pause, Run
    from trellis_jobs.model.schedules.upcoming import UpcomingTick
    from trellis_jobs.model.states import JobState


def schedule_view(
    known: KnownSchedule, now: datetime, grace: timedelta, queues: KnownQueues
) -> ScheduleView:
    return ScheduleView(**_fields(known, now, grace, queues))


def detail_view(
    known: KnownSchedule,
    now: datetime,
    grace: timedelta,
    queues: KnownQueues,
    *,
    ticks: int,
    states: Mapping[str, JobState],
) -> ScheduleDetailView:
    """`states` are those of its jobs, by id."""
    fields, record = _fields(known, now, grace, queues), known.stored.record
    if record is None:
        return ScheduleDetailView(**fields)
    waiting = {job.job_id for job in record.unfinished}
    return ScheduleDetailView(
        **fields,
        payload=redacted(record.definition.payload, record.definition.secrets),
        on_missed_ticks=describe_catch_up(record.definition),
        on_overlap=describe_overlap(record.definition),
        next_ticks=tuple(_tick(each) for each in upcoming(record, now, ticks)),
        runs=tuple(
            _run(run, waits=run.job_id in waiting, state=states.get(run.job_id or ""))
            for run in record.runs
        ),
    )


def _fields(
    known: KnownSchedule, now: datetime, grace: timedelta, queues: KnownQueues
) -> dict[str, Any]:
    address, stored = known.address, known.stored
    named = {"service": address.service, "type": address.job_type, "name": address.schedule}
    if stored.record is None:
        return {**named, "problem": stored.problem}
    record, waits_since = stored.record, known.waits_since
    following = next_upcoming(record, now)
    last = record.runs[-1] if record.runs else None
    waiting = {job.job_id for job in record.unfinished}
    return {
        **named,
        "origin": record.origin,
        "by": record.by,
        "definition": ScheduleDefinitionView.model_validate(definition_to_json(record.definition)),
        "description": describe(record.definition),
        "paused": None if record.paused is None else _pause(record.paused),
        "next": None if following is None else _tick(following),
        "last_run": None if last is None else _run(last, waits=last.job_id in waiting),
        "due_since": waits_since if waits_since is not None and waits_since <= now else None,
        "overdue": known.is_overdue(now - grace),
        "queue_unknown": queues.lacks(address),
        "created_at": record.created_at,
        "updated_at": record.updated_at,
    }


def _tick(upcoming_tick: UpcomingTick) -> TickView:
    return TickView(tick=upcoming_tick.tick, at=upcoming_tick.at)


def _pause(pause: Pause) -> SchedulePauseView:
    return SchedulePauseView(since=pause.since, until=pause.until, by=pause.by, reason=pause.reason)


def _run(run: Run, *, waits: bool, state: JobState | None = None) -> ScheduleRunView:
    return ScheduleRunView(
        tick=run.tick,
        at=run.at,
        job_id=run.job_id,
        skipped=run.skipped,
        count=run.count,
        refused=run.refused,
        triggered=run.triggered,
        by=run.by,
        waits=waits,
        state=state,
    )
