"""How many jobs there are: from what is counted as jobs move, as far as that goes."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from jobs_admin.projection.counters import SLOT
from jobs_admin.projection.rows import microseconds, moment_of
from jobs_admin.reads.job_filter import Conditions, counts, narrowest, status

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    import aiosqlite

    from jobs_admin.api.job_filter import JobFilter


# A service and a type, or all of them.
OF_ONE: Final = "(?1 IS NULL OR service = ?1) AND (?2 IS NULL OR type = ?2)"
# Since when the longest waiting job of each type has waited: one look into an index a type.
OLDEST_PENDING: Final = (
    "SELECT service, type, (SELECT min(updated_at) FROM jobs_projection AS job "  # noqa: S608
    "WHERE job.state = 'pending' AND job.service = counts.service AND job.type = counts.type) "
    f"FROM job_counts AS counts WHERE state = 'pending' AND {OF_ONE}"
)


async def count(database: aiosqlite.Connection, wanted: JobFilter) -> int:
    if wanted.is_impossible:
        return 0
    if wanted.is_counted:
        return await _sum(database, counts(wanted), status(wanted))
    if wanted.is_counted_by_change:
        return await _changed(database, wanted)
    return await _looked_at(database, wanted)


async def _changed(database: aiosqlite.Connection, wanted: JobFilter) -> int:
    """Whole slots of time, less what came before in the first, and what comes in the last."""
    since, until = wanted.since, wanted.until
    found, slots = 0, Conditions()
    if since is not None:
        slots += Conditions(("slot >= ?",), (slot_of(since),))
        found -= await _looked_at(
            database, replace(wanted, since=begin_of_slot(since), until=since)
        )
    if until is not None:
        slots += Conditions(("slot < ?",), (slot_of(until),))
        found += await _looked_at(database, replace(wanted, since=begin_of_slot(until)))
    return found + await _sum(database, "change_counts", slots + status(wanted))


def slot_of(moment: datetime) -> int:
    return microseconds(moment) // SLOT


def begin_of_slot(moment: datetime) -> datetime:
    """Of the slot that it is in."""
    return moment_of(slot_of(moment) * SLOT)


async def _looked_at(database: aiosqlite.Connection, wanted: JobFilter) -> int:
    route = narrowest(wanted)
    query = f"SELECT count(*) FROM {route.source}{route.conditions.where}"  # noqa: S608
    return await _number(database, query, route.conditions.values)


async def _sum(database: aiosqlite.Connection, table: str, of: Conditions) -> int:
    query = f"SELECT coalesce(sum(jobs), 0) FROM {table}{of.where}"  # noqa: S608 - our own names
    return await _number(database, query, of.values)


async def _number(database: aiosqlite.Connection, query: str, values: Sequence[Any]) -> int:
    [(number,)] = await database.execute_fetchall(query, values)
    return int(number)
