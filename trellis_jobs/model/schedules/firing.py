"""Decide which jobs a schedule creates now, and when it has to be looked at again.

`fire` is a function of the record, so a repeated alarm, a second process or a restart after a crash
gives the same answer or a harmless one: ticks up to `decided_until` are never decided again, and
as long as jobs are unfinished, nothing new is decided.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final, TypeAlias

from trellis_jobs.model.schedules.address import ScheduleAddress, tick_fraction, tick_job_id
from trellis_jobs.model.schedules.definition import (
    MAX_MAX_CATCH_UP,
    CatchUp,
    Overlap,
    ScheduleDefinition,
)
from trellis_jobs.model.schedules.record import (
    MAX_COUNT,
    Cancellation,
    Decision,
    PlannedJob,
    Run,
    ScheduleRecord,
    SkipReason,
    with_runs,
)
from trellis_jobs.model.schedules.ticks import (
    count_ticks,
    latest_tick,
    newest_ticks,
    next_tick,
    ticks_between,
)
from trellis_jobs.model.states import LIVE, JobState
from trellis_jobs.model.values import replace

if TYPE_CHECKING:
    from collections.abc import Sequence

# The states of the job of the newest tick, and of the job that was triggered last.
_States: TypeAlias = tuple[JobState | None, JobState | None]
# CatchUp.SKIP creates the job of a tick that is late by at most this time.
GRACE: Final = timedelta(seconds=60)
_MICROSECOND: Final = timedelta(microseconds=1)
# Between two deliveries of an alarm that only processes of another version can handle.
_SHORTEST_HANDOVER: Final = timedelta(seconds=5)
_LONGEST_HANDOVER: Final = timedelta(minutes=5)
_CHUNK: Final = 100


def fire_time(definition: ScheduleDefinition, address: ScheduleAddress, tick: datetime) -> datetime:
    """When the job of a tick is created: at the tick, plus a delay of at most the jitter.

    The delay is derived from the tick, so all processes compute the same.
    """
    if not definition.jitter:
        return tick
    number, bound = tick_fraction(address, tick)
    return tick + (definition.jitter // _MICROSECOND) * number // bound * _MICROSECOND


def next_fire_time(record: ScheduleRecord) -> datetime | None:
    """When the next tick that is not decided fires. It may be in the past.

    Returns None if there is none, or if the schedule is paused until someone resumes it.
    """
    if record.paused is not None:
        return record.paused.until
    tick = next_tick(record.definition, record.decided_until)
    return None if tick is None else fire_time(record.definition, record.address, tick)


def alarm_time(record: ScheduleRecord) -> datetime | None:
    """When a process has to look at the schedule; at once, if jobs are unfinished."""
    return record.updated_at if record.unfinished else next_fire_time(record)


def waits_since(record: ScheduleRecord, stored_at: datetime) -> datetime | None:
    """Since when a process could have looked at the schedule. It may be in the future.

    `stored_at` is when the record was written, by the server's clock. Returns None if the schedule
    has nothing to do. If this is long ago, its alarm was lost, or no worker of its service is up.
    """
    if record.unfinished:
        return stored_at
    due = next_fire_time(record)
    return None if due is None else max(due, stored_at)


def handover_delay(waited: timedelta) -> timedelta:
    """When an alarm is delivered again that this process left to processes of another version.

    Every 5 s at first, as during a deploy, and later at most every 5 minutes: perhaps no code of
    the service knows the queue any more. `waited` is how long ago the alarm was due.
    """
    return min(max(_SHORTEST_HANDOVER, waited / 10), _LONGEST_HANDOVER)


def fire(
    record: ScheduleRecord,
    *,
    now: datetime,
    previous: JobState | None = None,
    triggered: JobState | None = None,
    max_jobs: int = MAX_MAX_CATCH_UP,
) -> Decision:
    """Decide all ticks that are due. The jobs to create are `unfinished` of the next record.

    `previous` is the state of `record.previous_job`; None if the log does not have that job.
    `triggered` is that of `record.previous_triggered`. `max_jobs` limits CatchUp.ALL
    further, if more do not fit into the record.

    If the record that was given has unfinished jobs, nothing else is decided before they are
    finished: the caller creates them, writes `finish(…)`, and calls this again.
    """
    if record.unfinished:
        return Decision(record, next_fire_time(record))
    record = _without_expired_pause(record, now)
    if record.paused is None and (newest := _newest_due(record, now)) is not None:
        chosen = _caught_up(record, newest, now, max_jobs)
        record = _decide(record, newest, chosen, now, (previous, triggered))
    return Decision(record, next_fire_time(record))


def resumed(record: ScheduleRecord, at: datetime) -> ScheduleRecord:
    """The record without its pause. The catch-up policy decides about the ticks of the pause."""
    record = replace(record, paused=None)
    if record.definition.catch_up is not CatchUp.SKIP:
        return record
    return skip_until(record, at, SkipReason.PAUSED, now=at)


def skip_until(
    record: ScheduleRecord, until: datetime, why: SkipReason, *, now: datetime
) -> ScheduleRecord:
    """Decide that the ticks up to `until` have no jobs. The record lists them if there are any."""
    definition, after = record.definition, record.decided_until
    newest = latest_tick(definition, after, until)
    if newest is None:
        return replace(record, decided_until=max(after, until))
    count = count_ticks(definition, after, newest, MAX_COUNT)
    run = Run(tick=newest, at=now, skipped=why, count=count)
    return replace(record, decided_until=max(after, until), runs=with_runs(record, run))


def _without_expired_pause(record: ScheduleRecord, now: datetime) -> ScheduleRecord:
    pause = record.paused
    if pause is None or pause.until is None or pause.until > now:
        return record
    return replace(resumed(record, pause.until), updated_at=now)


def _newest_due(record: ScheduleRecord, now: datetime) -> datetime | None:
    """The newest tick that is due together with all ticks before it.

    Jitter may make a tick due before an earlier one. It then waits for the earlier one, which is
    due at its own tick plus jitter at the latest.
    """
    definition, after = record.definition, record.decided_until
    newest = latest_tick(definition, after, now - definition.jitter)
    while definition.jitter:
        begin = newest or after
        ticks = ticks_between(definition, begin, now, _CHUNK)
        for tick in ticks:
            if fire_time(definition, record.address, tick) > now:
                return newest
            newest = tick
        if not ticks:
            break
    return newest


def _decide(
    record: ScheduleRecord,
    newest: datetime,
    chosen: Sequence[datetime],
    now: datetime,
    states: _States,
) -> ScheduleRecord:
    missed_until = chosen[0] - _MICROSECOND if chosen else newest
    record = skip_until(record, missed_until, SkipReason.MISSED, now=now)
    jobs = _plan(record, chosen, states)
    unfinished = tuple(jobs.values())
    return replace(
        record,
        decided_until=newest,
        unfinished=unfinished,
        last_job=unfinished[-1].job_id if unfinished else record.last_job,
        last_triggered=record.last_triggered if _still_counts(record, states) else None,
        runs=with_runs(record, *(_run(tick, jobs.get(tick), now) for tick in chosen)),
        updated_at=now,
    )


def _caught_up(
    record: ScheduleRecord, newest: datetime, now: datetime, max_jobs: int
) -> list[datetime]:
    """The due ticks for which the catch-up policy wants jobs."""
    definition = record.definition
    if definition.catch_up is CatchUp.ALL:
        limit = min(definition.max_catch_up, max_jobs)
        return newest_ticks(definition, record.decided_until, newest, limit)
    if definition.catch_up is CatchUp.SKIP and _is_late(record, newest, now):
        return []
    return [newest]


def _is_late(record: ScheduleRecord, tick: datetime, now: datetime) -> bool:
    following = next_tick(record.definition, tick)
    grace = GRACE if following is None else min(GRACE, following - tick)
    return now - fire_time(record.definition, record.address, tick) > grace


def _plan(
    record: ScheduleRecord, chosen: Sequence[datetime], states: _States
) -> dict[datetime, PlannedJob]:
    """The jobs that the overlap policy admits, each as if its tick had been fired in time."""
    overlap, ticks = record.definition.overlap, list(chosen)
    cancel: tuple[Cancellation | None, Cancellation | None] = (None, None)
    previous, triggered = states
    if overlap is Overlap.SKIP:
        ticks = [] if previous in LIVE or triggered in LIVE else ticks[:1]
    elif overlap is not Overlap.ALLOW:
        # A newer tick replaces an older one whose job does not exist yet.
        ticks = ticks[-1:]
        cancel = (
            _cancellation(record, record.last_job, previous),
            _cancellation(record, record.last_triggered, triggered),
        )
    return {
        tick: PlannedJob(
            job_id=tick_job_id(record.address, tick),
            tick=tick,
            cancel=cancel[0],
            cancel_triggered=cancel[1],
        )
        for tick in ticks
    }


def _still_counts(record: ScheduleRecord, states: _States) -> bool:
    """Forgets a triggered job that has ended, so that later ticks do not read its state."""
    return record.previous_triggered is None or states[1] in LIVE


def _cancellation(
    record: ScheduleRecord, job_id: str | None, state: JobState | None
) -> Cancellation | None:
    if job_id is None or state not in LIVE:
        return None
    cancels_running = record.definition.overlap is Overlap.CANCEL_RUNNING
    if state is JobState.ACTIVE and not cancels_running:
        return None
    return Cancellation(job_id, cancels_running)


def _run(tick: datetime, job: PlannedJob | None, now: datetime) -> Run:
    if job is None:
        return Run(tick=tick, at=now, skipped=SkipReason.OVERLAP)
    return Run(tick=tick, at=now, job_id=job.job_id)
