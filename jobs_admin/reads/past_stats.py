"""How many jobs were in which state at a past moment: now, without what changed since."""

from __future__ import annotations

from collections import defaultdict
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from jobs_admin.api.error_envelope import Invalid
from jobs_admin.api.errors import Issue
from jobs_admin.api.views.history import StatsAtView, TypeStatesAt
from jobs_admin.projection.metadata import FILLED_AT, metadata
from jobs_admin.projection.rows import (
    MINUTES_A_DAY,
    MINUTES_AN_HOUR,
    minute,
    moment_of,
    moment_of_minute,
)
from jobs_admin.reads.job_counts import OF_ONE
from jobs_admin.reads.kept_times import first_minute_kept
from jobs_admin.reads.readers import QUERY_TIMEOUT
from jobs_admin.reads.stats import sum_of

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    import aiosqlite

    from jobs_admin.reads.readers import Readers

_MINUTE: Final = timedelta(minutes=1)
# Minutes up to the next hour, hours up to the next day, then days.
_SINCE: Final = (
    "(minutes = 1 AND slot >= ?3 AND slot < ?4)",
    "(minutes = 60 AND slot >= ?5 AND slot < ?6)",
    "(minutes = 1440 AND slot >= ?7)",
)
_AS_THEY_WERE: Final = " UNION ALL ".join(
    (
        "SELECT service, type, state, jobs FROM job_counts",
        *(
            f"SELECT service, type, state, exited - entered FROM state_changes WHERE {since}"  # noqa: S608
            for since in _SINCE
        ),
        *(f"SELECT service, type, state, jobs FROM removed_jobs WHERE {since}" for since in _SINCE),  # noqa: S608
    )
)
_COUNTS: Final = (
    f"SELECT service, type, state, sum(jobs) FROM ({_AS_THEY_WERE}) "  # noqa: S608
    f"WHERE {OF_ONE} GROUP BY service, type, state HAVING sum(jobs) <> 0"
)


async def stats_at(
    readers: Readers,
    at: datetime,
    *,
    now: datetime,
    service: str | None = None,
    job_type: str | None = None,
) -> StatsAtView:
    """Raises Invalid for a moment in the future, or before changes are counted."""
    check_past(at, now)
    async with readers.snapshot(within=QUERY_TIMEOUT) as database:
        first, resolution = await _rounded(database, at)
        values = (service, job_type, *_slots_from(first))
        rows = await database.execute_fetchall(_COUNTS, values)
        filled_at = (await metadata(database)).get(FILLED_AT)
        earliest = await first_minute_kept(database, in_hours=True)
    types = _types(rows)
    return StatsAtView(
        at=moment_of_minute(first),
        resolution_minutes=resolution,
        earliest=None if earliest is None else moment_of_minute(earliest),
        complete_since=None if filled_at is None else moment_of(int(filled_at)),
        states=sum_of(each.states for each in types),
        types=types,
    )


def check_past(at: datetime, now: datetime) -> None:
    """The server's clock may be a moment behind the caller's."""
    if at > now + _MINUTE:
        problem = f"{at.isoformat()} is in the future: it is {now.isoformat()}"
        raise Invalid(problem, [Issue("/at", problem)])


async def _rounded(database: aiosqlite.Connection, at: datetime) -> tuple[int, int]:
    """The minute of the moment, or of its hour if minutes are no longer kept; and which of both."""
    kept_minutes = await first_minute_kept(database, in_hours=False)
    of_minute = minute(at)
    if kept_minutes is None or of_minute >= kept_minutes:
        return of_minute, 1
    kept_hours = await first_minute_kept(database, in_hours=True)
    if kept_hours is not None and of_minute < kept_hours:
        problem = (
            f"{at.isoformat()} is too long ago: changes of states are counted from "
            f"{moment_of_minute(kept_hours).isoformat()} on"
        )
        raise Invalid(problem, [Issue("/at", problem)])
    return of_minute // MINUTES_AN_HOUR * MINUTES_AN_HOUR, MINUTES_AN_HOUR


def _slots_from(of_minute: int) -> tuple[int, int, int, int, int]:
    """From and to of the minutes and of the hours, and the first day."""
    hour, day = -(-of_minute // MINUTES_AN_HOUR), -(-of_minute // MINUTES_A_DAY)
    hours_a_day = MINUTES_A_DAY // MINUTES_AN_HOUR
    return of_minute, hour * MINUTES_AN_HOUR, hour, day * hours_a_day, day


def _types(rows: Iterable[Any]) -> tuple[TypeStatesAt, ...]:
    found: defaultdict[tuple[str, str], dict[str, int]] = defaultdict(dict)
    for service, job_type, state, jobs in rows:
        found[service, job_type][state] = jobs
    return tuple(
        TypeStatesAt(service=service, type=job_type, states=found[service, job_type])
        for service, job_type in sorted(found)
    )
