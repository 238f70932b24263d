"""What happened over time: events in steps, and how long attempts waited and ran."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from jobs_admin.api.error_envelope import Invalid
from jobs_admin.api.errors import Issue
from jobs_admin.api.history_inputs import MAX_HISTORY_STEPS
from jobs_admin.api.views.history import HistoryView, QueueHistory
from jobs_admin.projection.durations import Timed
from jobs_admin.projection.rows import MINUTES_AN_HOUR, minute, moment_of_minute
from jobs_admin.reads.history_queries import Steps, count_queues, find_each, find_one, sum_of_each
from jobs_admin.reads.kept_times import first_minute_kept
from jobs_admin.reads.percentiles import durations_view
from jobs_admin.reads.readers import QUERY_TIMEOUT

if TYPE_CHECKING:
    from datetime import datetime

    import aiosqlite

    from jobs_admin.api.history_inputs import HistoryInput
    from jobs_admin.api.views.history import DurationsView
    from jobs_admin.reads.history_queries import Found, FoundByQueue
    from jobs_admin.reads.readers import Readers

# How many minutes or hours of all queues a reply with several queues may be made from.
MAX_QUEUE_SLOTS: Final = 2_400


async def history(readers: Readers, request: HistoryInput, now: datetime) -> HistoryView:
    """Raises Invalid for a time that is no longer counted, and QueryTimeout."""
    steps, of = steps_of(request, now), (request.service, request.type)
    # There are rows of each queue and of all queues, but none of a service or of a type.
    needs_each = request.per_queue or (None in of and of != (None, None))
    by_queue: FoundByQueue | None = None
    async with readers.snapshot(within=QUERY_TIMEOUT) as database:
        await _check_kept(database, steps)
        if needs_each:
            _check_size(await count_queues(database, of), steps)
            by_queue = await find_each(database, of, steps)
            total = sum_of_each(by_queue)
        else:
            total = await find_one(database, of, steps)
    return _view(total, by_queue if request.per_queue else None, steps)


def steps_of(request: HistoryInput, now: datetime) -> Steps:
    """The whole steps that contain the requested time. Raises Invalid if they are too many."""
    length, until = request.step_minutes, request.until or now
    if until <= request.since:
        raise _invalid("/until", "the time ends before it begins")
    first, last = minute(request.since), minute(until - timedelta(microseconds=1))
    steps = Steps(first // length * length, (last // length + 1) * length, length)
    if steps.number > MAX_HISTORY_STEPS:
        raise _invalid(
            "/stepMinutes",
            f"{steps.number} steps are too many, the limit is {MAX_HISTORY_STEPS}: use a longer "
            "step or a shorter time",
        )
    return steps


async def _check_kept(database: aiosqlite.Connection, steps: Steps) -> None:
    kept = await first_minute_kept(database, in_hours=steps.unit == MINUTES_AN_HOUR)
    if kept is None or steps.since >= kept:
        return
    unit, how_long = "hours", "30 days"
    if steps.unit == 1:
        unit, how_long = "minutes", "a day: use steps of whole hours for an earlier time"
    begin = moment_of_minute(kept).isoformat()
    raise _invalid("/since", f"{unit} are counted from {begin} on, and kept for {how_long}")


def _check_size(queues: int, steps: Steps) -> None:
    first, last = steps.slots
    if queues * (last - first) > MAX_QUEUE_SLOTS:
        unit = "minutes" if steps.unit == 1 else "hours"
        problem = f"{queues} queues with {last - first} {unit} each are too many"
        hint = f"the limit is {MAX_QUEUE_SLOTS} in all: use a shorter time or one queue"
        raise _invalid("/since", f"{problem}, {hint}")


def _view(total: Found, by_queue: FoundByQueue | None, steps: Steps) -> HistoryView:
    first, last = steps.hours
    return HistoryView(
        since=moment_of_minute(steps.since),
        until=moment_of_minute(steps.until),
        step_minutes=steps.minutes,
        durations_since=moment_of_minute(first * MINUTES_AN_HOUR),
        durations_until=moment_of_minute(last * MINUTES_AN_HOUR),
        events=_events(total),
        wait=_durations(total, Timed.WAIT, steps),
        run=_durations(total, Timed.RUN, steps),
        queues=tuple(
            QueueHistory(
                service=str(service),
                type=str(job_type),
                events=_events(of),
                wait=_durations(of, Timed.WAIT, steps),
                run=_durations(of, Timed.RUN, steps),
            )
            for (service, job_type), of in sorted((by_queue or {}).items())
        ),
    )


def _events(found: Found) -> dict[str, tuple[int, ...]]:
    return {kind: tuple(numbers) for kind, numbers in sorted(found.events.items())}


def _durations(found: Found, phase: Timed, steps: Steps) -> DurationsView | None:
    by_step = found.by_step.get(phase)
    of_steps = [by_step.get(n, Counter()) for n in range(steps.number)] if by_step else None
    return durations_view(found.durations.get(phase, {}), of_steps)


def _invalid(path: str, problem: str) -> Invalid:
    return Invalid(problem, [Issue(path, problem)])
