"""The counted events and durations of a time: of one queue, of each queue, or of all together."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from operator import add
from typing import TYPE_CHECKING, Any, Final

import orjson

from jobs_admin.projection.rows import ALL_QUEUES, MINUTES_AN_HOUR
from jobs_admin.reads.job_counts import OF_ONE
from jobs_admin.reads.stats import whole_slots

if TYPE_CHECKING:
    from collections.abc import Iterable

    import aiosqlite

_HOURS_A_DAY: Final = 24

# One lookup for each slot of one queue, or of the sums: most rows of a slot are those of others.
_SLOTS: Final = (
    "WITH RECURSIVE slots (slot) AS "
    "(SELECT ?3 UNION ALL SELECT slot + 1 FROM slots WHERE slot + 1 < ?4) "
)
_OF_QUEUES: Final = f"service <> '' AND {OF_ONE}"
_DURATIONS_OF_ONE: Final = (
    f"{_SLOTS} SELECT d.slot, phase, bucket, attempts "  # noqa: S608 - our own names
    "FROM slots CROSS JOIN attempt_durations AS d "
    "ON d.minutes = 60 AND d.slot = slots.slot AND service = ?1 AND type = ?2"
)
_DURATIONS: Final = (
    "SELECT service, type, phase, bucket, sum(attempts) FROM "  # noqa: S608 - our own names
    "(SELECT * FROM attempt_durations WHERE minutes = 1440 AND slot >= ?3 AND slot < ?4 "
    "UNION ALL SELECT * FROM attempt_durations WHERE minutes = 60 AND slot >= ?5 AND slot < ?6 "
    "UNION ALL SELECT * FROM attempt_durations WHERE minutes = 60 AND slot >= ?7 AND slot < ?8) "
    f"WHERE {_OF_QUEUES} GROUP BY service, type, phase, bucket"
)
_QUEUES: Final = (
    f"SELECT count(*) FROM (SELECT DISTINCT service, type FROM job_counts WHERE {OF_ONE})"  # noqa: S608
)

# A service and a type; None for any.
Queue = tuple[str | None, str | None]
Histogram = Counter[int]


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
    def slots(self) -> tuple[int, int]:
        return self.since // self.unit, self.until // self.unit

    @property
    def hours(self) -> tuple[int, int]:
        """The whole hours that they touch, from and to."""
        return self.since // MINUTES_AN_HOUR, -(-self.until // MINUTES_AN_HOUR)

    def index(self, slot: int) -> int:
        return (slot * self.unit - self.since) // self.minutes


@dataclass(slots=True)
class Found:
    """Of one queue or of all: events by kind and step, and histograms by phase.

    `by_step` has histograms of steps, if they are whole hours, but not if there are many queues.
    """

    events: dict[str, list[int]] = field(default_factory=dict)
    durations: defaultdict[str, Histogram] = field(default_factory=lambda: defaultdict(Counter))
    by_step: defaultdict[str, dict[int, Histogram]] = field(
        default_factory=lambda: defaultdict(dict)
    )


FoundByQueue = defaultdict[Queue, Found]


async def count_queues(database: aiosqlite.Connection, of: Queue) -> int:
    [(number,)] = await database.execute_fetchall(_QUEUES, of)
    return int(number)


async def find_one(database: aiosqlite.Connection, of: Queue, steps: Steps) -> Found:
    """The events and durations of one queue, or of all together."""
    found, queue = Found(), of if None not in of else ALL_QUEUES
    rows = await database.execute_fetchall(_events_of_one(steps), (*queue, *steps.slots))
    for slot, kind, events in rows:
        found.events.setdefault(kind, [0] * steps.number)[steps.index(slot)] += events
    rows = await database.execute_fetchall(_DURATIONS_OF_ONE, (*queue, *steps.hours))
    _add_durations(found, rows, steps)
    return found


def _add_durations(found: Found, rows: Iterable[Any], steps: Steps) -> None:
    by_hour: defaultdict[tuple[str, int], Histogram] = defaultdict(Counter)
    for hour, phase, bucket, attempts in rows:
        by_hour[phase, hour][bucket] = attempts
    for (phase, hour), histogram in by_hour.items():
        found.durations[phase].update(histogram)
        if steps.unit == MINUTES_AN_HOUR:
            by_step, step = found.by_step[phase], steps.index(hour)
            by_step[step] = by_step[step] + histogram if step in by_step else histogram


async def find_each(database: aiosqlite.Connection, of: Queue, steps: Steps) -> FoundByQueue:
    """The events and durations of each queue, without histograms by step."""
    found: FoundByQueue = defaultdict(Found)
    rows = await database.execute_fetchall(_events_of_each(steps), (*of, *steps.slots))
    for service, job_type, kind, slots, numbers in rows:
        counts = found[service, job_type].events.setdefault(kind, [0] * steps.number)
        for slot, number in zip(orjson.loads(slots), orjson.loads(numbers), strict=True):
            counts[steps.index(slot)] += number
    spans = whole_slots(*steps.hours, _HOURS_A_DAY)
    rows = await database.execute_fetchall(_DURATIONS, (*of, *spans))
    for service, job_type, phase, bucket, attempts in rows:
        found[service, job_type].durations[phase][bucket] = attempts
    return found


def sum_of_each(found: FoundByQueue) -> Found:
    """What the queues have together."""
    total = Found()
    for of in found.values():
        for kind, numbers in of.events.items():
            before = total.events.get(kind)
            total.events[kind] = list(map(add, before, numbers)) if before else numbers
        for phase, histogram in of.durations.items():
            total.durations[phase].update(histogram)
    return total


def _events_of_one(steps: Steps) -> str:
    table, slot = _table(steps)
    return (
        f"{_SLOTS} SELECT slots.slot, kind, events FROM slots CROSS JOIN {table} AS a "  # noqa: S608
        f"ON a.{slot} = slots.slot AND a.service = ?1 AND a.type = ?2"
    )


def _events_of_each(steps: Steps) -> str:
    table, slot = _table(steps)
    return (
        f"SELECT service, type, kind, json_group_array({slot}), json_group_array(events) "  # noqa: S608
        f"FROM {table} WHERE {slot} >= ?3 AND {slot} < ?4 AND {_OF_QUEUES} "
        "GROUP BY service, type, kind"
    )


def _table(steps: Steps) -> tuple[str, str]:
    """The table that counts events in these slots, and its column for them."""
    return ("job_activity", "minute") if steps.unit == 1 else ("hourly_activity", "hour")
