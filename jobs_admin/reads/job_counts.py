"""How many jobs match a filter: from the counters of the projection where they suffice."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from jobs_admin.projection.counters import SLOT
from jobs_admin.projection.rows import microseconds, moment_of, origin_hash
from jobs_admin.reads.job_filter import Conditions, count_table, narrowest, shared_conditions

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    import aiosqlite

    from jobs_admin.api.job_filter import JobFilter


# A service and a type, or all of them.
OF_ONE: Final = "(?1 IS NULL OR service = ?1) AND (?2 IS NULL OR type = ?2)"
# Since when the job of each type has waited that waits longest: one index lookup per type.
OLDEST_PENDING: Final = (
    "SELECT service, type, (SELECT min(updated_at) FROM jobs_projection AS job "  # noqa: S608
    "WHERE job.state = 'pending' AND job.service = counts.service AND job.type = counts.type) "
    f"FROM job_counts AS counts WHERE state = 'pending' AND {OF_ONE}"
)


async def count(database: aiosqlite.Connection, job_filter: JobFilter) -> int:
    if job_filter.is_impossible:
        return 0
    if job_filter.is_counted:
        return await _sum(database, count_table(job_filter), shared_conditions(job_filter))
    if job_filter.is_counted_by_change:
        return await _changed(database, job_filter)
    if job_filter.is_one_origin:
        return await _count_origin(database, job_filter)
    return await _count_rows(database, job_filter)


async def _count_origin(database: aiosqlite.Connection, job_filter: JobFilter) -> int:
    """One request may have created a million jobs, whose rows need not be read."""
    [(name, value)] = job_filter.origins.items()
    query = "SELECT count(*) FROM job_values WHERE hash = ?"
    return await _number(database, query, (origin_hash(name, value),))


async def _changed(database: aiosqlite.Connection, job_filter: JobFilter) -> int:
    """Count whole slots, subtract the part of the first before `since`, add that up to `until`."""
    since, until = job_filter.since, job_filter.until
    found, slots = 0, Conditions()
    if since is not None:
        slots += Conditions(("slot >= ?",), (slot_of(since),))
        found -= await _count_rows(
            database, job_filter.model_copy(update={"since": begin_of_slot(since), "until": since})
        )
    if until is not None:
        slots += Conditions(("slot < ?",), (slot_of(until),))
        found += await _count_rows(
            database, job_filter.model_copy(update={"since": begin_of_slot(until)})
        )
    return found + await _sum(database, "change_counts", slots + shared_conditions(job_filter))


def slot_of(moment: datetime) -> int:
    return microseconds(moment) // SLOT


def begin_of_slot(moment: datetime) -> datetime:
    """When the slot of this moment begins."""
    return moment_of(slot_of(moment) * SLOT)


async def _count_rows(database: aiosqlite.Connection, job_filter: JobFilter) -> int:
    route = narrowest(job_filter)
    query = f"SELECT count(*) FROM {route.source}{route.conditions.where}"  # noqa: S608
    return await _number(database, query, route.conditions.values)


async def _sum(database: aiosqlite.Connection, table: str, of: Conditions) -> int:
    query = f"SELECT coalesce(sum(jobs), 0) FROM {table}{of.where}"  # noqa: S608 - our own names
    return await _number(database, query, of.values)


async def _number(database: aiosqlite.Connection, query: str, values: Sequence[Any]) -> int:
    [(number,)] = await database.execute_fetchall(query, values)
    return int(number)
