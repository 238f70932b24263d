"""Numbers over all jobs: how many in which state, how long they wait, how fast they go."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, TypeVar

from jobs_admin.api.views.services import StatsView, TypeStats
from jobs_admin.projection.rows import MINUTES_AN_HOUR, minute, moment_of
from jobs_admin.reads.job_counts import OF_ONE, OLDEST_PENDING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import datetime

    from jobs_admin.reads.readers import Readers

N = TypeVar("N", int, float)

WINDOW: Final = timedelta(minutes=5)
_MINUTE: Final = timedelta(minutes=1)
_MILLISECOND: Final = timedelta(milliseconds=1)

_COUNTS: Final = f"SELECT service, type, state, jobs FROM job_counts WHERE {OF_ONE}"  # noqa: S608
# Whole minutes only: the one that runs is not over.
_ACTIVITY: Final = (
    "SELECT service, type, kind, sum(events) FROM ("  # noqa: S608
    "SELECT service, type, kind, events FROM hourly_activity WHERE hour >= ?3 AND hour < ?4 "
    "UNION ALL SELECT service, type, kind, events FROM job_activity "
    "WHERE minute >= ?5 AND minute < ?6 "
    "UNION ALL SELECT service, type, kind, events FROM job_activity "
    "WHERE minute >= ?7 AND minute < ?8) "
    f"WHERE service <> '' AND {OF_ONE} GROUP BY service, type, kind"
)


@dataclass(slots=True)
class Counts:
    """What is counted of one queue."""

    states: dict[str, int] = field(default_factory=dict)
    oldest_pending_at: datetime | None = None
    events: dict[str, int] = field(default_factory=dict)


Found = dict[tuple[str, str], Counts]


async def stats(
    readers: Readers,
    *,
    now: datetime,
    service: str | None = None,
    job_type: str | None = None,
    window: timedelta = WINDOW,
) -> StatsView:
    """`now` is the server's time; rates are per minute, over the whole minutes before it.

    A kind's rate counts the events that moved a job: `created`, `started`, `completed`, …
    """
    found: Found = {}
    this_minute = minute(now)
    minutes = max(1, window // _MINUTE)
    async with readers.snapshot() as database:
        of_one = (service, job_type)
        _add_counts(found, await database.execute_fetchall(_COUNTS, of_one))
        _add_oldest(found, await database.execute_fetchall(OLDEST_PENDING, of_one))
        spans = whole_slots(this_minute - minutes, this_minute, MINUTES_AN_HOUR)
        _add_activity(found, await database.execute_fetchall(_ACTIVITY, (*of_one, *spans)))
    types = tuple(_type_stats(*where, found[where], now, minutes) for where in sorted(found))
    return StatsView(
        timestamp=now,
        window_minutes=minutes,
        states=sum_of(each.states for each in types),
        per_minute=sum_of(each.per_minute for each in types),
        oldest_pending_age_ms=max((each.oldest_pending_age_ms or 0 for each in types), default=0),
        types=types,
    )


def whole_slots(since: int, until: int, length: int) -> tuple[int, int, int, int, int, int]:
    """A range as whole slots of a length and what is left before and after; each from and to."""
    first, last = -(-since // length), until // length
    if first >= last:
        return (0, 0, since, until, 0, 0)
    return (first, last, since, first * length, last * length, until)


def _add_counts(found: Found, rows: Iterable[Any]) -> None:
    for service, job_type, state, jobs in rows:
        found.setdefault((service, job_type), Counts()).states[state] = jobs


def _add_oldest(found: Found, rows: Iterable[Any]) -> None:
    for service, job_type, oldest in rows:
        if oldest is not None:
            found[service, job_type].oldest_pending_at = moment_of(oldest)


def _add_activity(found: Found, rows: Iterable[Any]) -> None:
    for service, job_type, kind, events in rows:
        found.setdefault((service, job_type), Counts()).events[kind] = events


def _type_stats(
    service: str, job_type: str, counts: Counts, now: datetime, minutes: int
) -> TypeStats:
    oldest = counts.oldest_pending_at
    waited = None if oldest is None else max(timedelta(), now - oldest) // _MILLISECOND
    return TypeStats(
        service=service,
        type=job_type,
        states=counts.states,
        per_minute={kind: round(n / minutes, 2) for kind, n in counts.events.items()},
        oldest_pending_at=oldest,
        oldest_pending_age_ms=waited,
    )


def sum_of(parts: Iterable[Mapping[str, N]]) -> dict[str, N]:
    total: dict[str, N] = {}
    for part in parts:
        for name, number in part.items():
            total[name] = round(total.get(name, 0) + number, 2)
    return total
