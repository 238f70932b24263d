"""What happened over time: events in steps, and how long attempts waited and ran."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from jobs_admin.api.error_envelope import Invalid
from jobs_admin.api.errors import Issue
from jobs_admin.api.inputs import MAX_HISTORY_STEPS
from jobs_admin.api.views.history import HistoryView, QueueHistory
from jobs_admin.projection.durations import Timed
from jobs_admin.projection.rows import MINUTES_AN_HOUR, minute, moment_of_minute
from jobs_admin.reads.job_counts import OF_ONE
from jobs_admin.reads.kept_times import first_minute_kept
from jobs_admin.reads.percentiles import durations_view
from jobs_admin.reads.readers import QUERY_TIMEOUT
from jobs_admin.reads.stats import whole_slots

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    import aiosqlite

    from jobs_admin.api.inputs import HistoryInput
    from jobs_admin.api.views.history import DurationsView
    from jobs_admin.reads.readers import Readers

# How many numbers a reply may have; a message has a megabyte.
MAX_NUMBERS: Final = 50_000
_HOURS_A_DAY: Final = 24

_ACTIVITY: Final = {
    1: f"FROM job_activity WHERE minute >= ?3 AND minute < ?4 AND {OF_ONE}",
    MINUTES_AN_HOUR: f"FROM hourly_activity WHERE hour >= ?3 AND hour < ?4 AND {OF_ONE}",
}
_SLOT: Final = {1: "minute", MINUTES_AN_HOUR: "hour"}
_DURATIONS: Final = (
    "SELECT service, type, phase, bucket, sum(attempts) FROM ("  # noqa: S608 - our own names
    "SELECT * FROM attempt_durations WHERE minutes = 1440 AND slot >= ?3 AND slot < ?4 "
    "UNION ALL SELECT * FROM attempt_durations WHERE minutes = 60 AND slot >= ?5 AND slot < ?6 "
    "UNION ALL SELECT * FROM attempt_durations WHERE minutes = 60 AND slot >= ?7 AND slot < ?8) "
    f"WHERE {OF_ONE} GROUP BY service, type, phase, bucket"
)
# One lookup for each hour: most rows of an hour are those of other queues.
_DURATIONS_BY_HOUR: Final = (
    "WITH RECURSIVE hours (slot) AS "
    "(SELECT ?3 UNION ALL SELECT slot + 1 FROM hours WHERE slot + 1 < ?4) "
    "SELECT d.slot, phase, bucket, attempts FROM hours CROSS JOIN attempt_durations AS d "
    "ON d.minutes = 60 AND d.slot = hours.slot AND service = ?1 AND type = ?2"
)

Queue = tuple[str | None, str | None]
ALL: Final[Queue] = (None, None)


@dataclass(frozen=True, slots=True)
class Steps:
    """Whole steps of a number of minutes, from a minute to before another."""

    since: int
    until: int
    minutes: int

    @property
    def unit(self) -> int:
        """The minutes of a counted slot: one, or an hour."""
        return min(self.minutes, MINUTES_AN_HOUR)

    @property
    def number(self) -> int:
        return (self.until - self.since) // self.minutes

    @property
    def hours(self) -> tuple[int, int]:
        """The whole hours that they touch, from and to."""
        return self.since // MINUTES_AN_HOUR, -(-self.until // MINUTES_AN_HOUR)

    def index(self, slot: int) -> int:
        return (slot * self.unit - self.since) // self.minutes


@dataclass(slots=True)
class _Found:
    """Of one queue or of all: events by kind and step, and histograms by phase."""

    events: dict[str, list[int]] = field(default_factory=dict)
    durations: defaultdict[str, Counter[int]] = field(default_factory=lambda: defaultdict(Counter))


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


async def history(readers: Readers, request: HistoryInput, now: datetime) -> HistoryView:
    """Raises Invalid for a time that is no longer counted, and QueryTimeout."""
    steps, of_one = steps_of(request, now), (request.service, request.type)
    found: defaultdict[Queue, _Found] = defaultdict(_Found)
    by_hour: dict[str, list[Counter[int]]] = {}
    async with readers.snapshot(within=QUERY_TIMEOUT) as database:
        await _check_kept(database, steps)
        _add_events(found, steps, await _activity(database, steps, request))
        first, last = steps.hours
        spans = (*of_one, *whole_slots(first, last, _HOURS_A_DAY))
        rows = await database.execute_fetchall(_DURATIONS, spans)
        _add_durations(found, rows, per_queue=request.per_queue)
        if None not in of_one and steps.unit == MINUTES_AN_HOUR:
            values = (*of_one, first, last)
            rows = await database.execute_fetchall(_DURATIONS_BY_HOUR, values)
            by_hour = _by_step(rows, steps)
    return _view(found, steps, by_hour)


async def _check_kept(database: aiosqlite.Connection, steps: Steps) -> None:
    kept = await first_minute_kept(database, in_hours=steps.unit == MINUTES_AN_HOUR)
    if kept is None or steps.since >= kept:
        return
    unit, hint = "hours", "30 days"
    if steps.unit == 1:
        unit, hint = "minutes", "a day: use steps of whole hours for an earlier time"
    raise _invalid(
        "/since",
        f"{unit} are counted from {moment_of_minute(kept).isoformat()} on, and kept for {hint}",
    )


async def _activity(
    database: aiosqlite.Connection, steps: Steps, request: HistoryInput
) -> Iterable[Any]:
    """Service and type are None in the sums over all queues."""
    table, slot = _ACTIVITY[steps.unit], _SLOT[steps.unit]
    query = f"SELECT NULL, NULL, {slot}, kind, sum(events) {table} GROUP BY {slot}, kind"
    if request.per_queue:
        query = f"SELECT service, type, {slot}, kind, events {table}"
    slots = (steps.since // steps.unit, steps.until // steps.unit)
    return await database.execute_fetchall(query, (request.service, request.type, *slots))


def _add_events(found: defaultdict[Queue, _Found], steps: Steps, rows: Iterable[Any]) -> None:
    numbers = 0
    for service, job_type, slot, kind, events in rows:
        for queue in {ALL, (service, job_type)}:
            of_queue = found[queue].events
            if kind not in of_queue:
                of_queue[kind] = [0] * steps.number
                numbers += steps.number
                if numbers > MAX_NUMBERS:
                    raise _invalid(
                        "/perQueue",
                        "the reply would be too large: name a queue, or use fewer steps",
                    )
            of_queue[kind][steps.index(slot)] += events


def _add_durations(
    found: defaultdict[Queue, _Found], rows: Iterable[Any], *, per_queue: bool
) -> None:
    for service, job_type, phase, bucket, attempts in rows:
        found[ALL].durations[phase][bucket] += attempts
        if per_queue:
            found[service, job_type].durations[phase][bucket] += attempts


def _by_step(rows: Iterable[Any], steps: Steps) -> dict[str, list[Counter[int]]]:
    found: dict[str, list[Counter[int]]] = {
        phase.value: [Counter() for _ in range(steps.number)] for phase in Timed
    }
    for slot, phase, bucket, attempts in rows:
        found[phase][steps.index(slot)][bucket] += attempts
    return found


def _view(
    found: defaultdict[Queue, _Found], steps: Steps, by_hour: dict[str, list[Counter[int]]]
) -> HistoryView:
    total = found.pop(ALL, _Found())
    first, last = steps.hours
    return HistoryView(
        since=moment_of_minute(steps.since),
        until=moment_of_minute(steps.until),
        step_minutes=steps.minutes,
        durations_since=moment_of_minute(first * MINUTES_AN_HOUR),
        durations_until=moment_of_minute(last * MINUTES_AN_HOUR),
        events=_events(total),
        wait=_durations(total, Timed.WAIT, by_hour),
        run=_durations(total, Timed.RUN, by_hour),
        queues=tuple(
            QueueHistory(
                service=str(service),
                type=str(job_type),
                events=_events(of),
                wait=_durations(of, Timed.WAIT),
                run=_durations(of, Timed.RUN),
            )
            for (service, job_type), of in sorted(found.items(), key=lambda each: str(each[0]))
        ),
    )


def _events(found: _Found) -> dict[str, tuple[int, ...]]:
    return {kind: tuple(numbers) for kind, numbers in sorted(found.events.items())}


def _durations(
    found: _Found, phase: Timed, by_hour: dict[str, list[Counter[int]]] | None = None
) -> DurationsView | None:
    return durations_view(found.durations.get(phase, {}), (by_hour or {}).get(phase))


def _invalid(path: str, problem: str) -> Invalid:
    return Invalid(problem, [Issue(path, problem)])
