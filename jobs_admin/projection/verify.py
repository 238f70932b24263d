"""Compares a live projection with a fresh projection of the log, row by row.

Some differences are expected and counted separately: what retention purged, and heartbeats that
expired, have left the log but not, or not yet, the projection.
"""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

import aiosqlite

from jobs_admin.api.errors import ProjectionMissing
from jobs_admin.projection.compatibility import compatible_position, translate_sqlite_errors
from jobs_admin.projection.files import file_id, read_only
from jobs_admin.projection.metadata import position_of
from jobs_admin.projection.rebuild import catch_up, fill, temporary_file
from jobs_admin.projection.rows import minute
from jobs_admin.projection.tables import PRESENCE, STATE_CHANGES, TABLES, first_minute
from jobs_admin.retention_policy import MIN_AGE
from trellis_jobs.jetstream.log.feed import LogPosition, check_log
from trellis_jobs.model.states import OVER

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Sequence
    from datetime import datetime
    from pathlib import Path

    from jobs_admin.projection.rebuild import ReportProgress
    from jobs_admin.projection.tables import Table
    from trellis_jobs.jetstream.log.feed import LogFeed

EXAMPLES: Final = 20
# Retention does not remove a job for this many minutes after its newest event was stored.
_NOTHING_PURGED: Final = MIN_AGE // timedelta(minutes=1)


@dataclass(frozen=True, slots=True)
class Difference:
    """`live` is the row of the projection, `fresh` the expected one; None when there is none."""

    table: str
    key: dict[str, Any]
    live: dict[str, Any] | None
    fresh: dict[str, Any] | None

    def changed(self) -> dict[str, tuple[Any, Any]]:
        """The differing columns, with the live and the expected value."""
        live, fresh = self.live or {}, self.fresh or {}
        return {
            name: (live.get(name), fresh.get(name))
            for name in live or fresh
            if live.get(name) != fresh.get(name)
        }


@dataclass(slots=True)
class Compared:
    """`gone` counts rows about messages that have left the log; `examples` are some differences."""

    table: str
    rows: int = 0
    different: int = 0
    gone: int = 0
    examples: list[Difference] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Findings:
    position: int
    messages: int
    tables: list[Compared]

    @property
    def is_equal(self) -> bool:
        return all(compared.different == 0 for compared in self.tables)

    def to_json(self) -> dict[str, Any]:
        return {
            "equal": self.is_equal,
            "position": self.position,
            "messages": self.messages,
            "tables": [asdict(compared) for compared in self.tables],
        }


async def verify(
    path: Path, feed: LogFeed, now: datetime, tell: ReportProgress | None = None
) -> Findings:
    """Other processes may read and write the projection in the meantime.

    Raises LogReplaced when the projection belongs to another log.
    """
    if file_id(path) is None:
        raise ProjectionMissing(path)
    with temporary_file(path, "verifying") as fresh, translate_sqlite_errors():
        # The projection may be behind the log. A fresh one that is ahead of it would differ.
        filled = await fill(
            fresh, feed, tell, up_to=await compatible_position(path) or LogPosition()
        )
        async with _seen_now(path) as database:
            shown = await position_of(database)
            check_log(shown, await feed.extent())
            await catch_up(fresh, feed, shown)
            await database.execute("ATTACH ? AS fresh", (read_only(fresh),))
            comparison = _Comparison(database, Traces(database, feed), now)
            tables = [await comparison.compare(table) for table in TABLES]
    return Findings(shown.sequence, filled.messages, tables)


class Traces:
    """Finds out whether the messages that rows were made from are still in the log."""

    def __init__(self, database: aiosqlite.Connection, feed: LogFeed) -> None:
        self._database = database
        self._feed = feed
        self._held: dict[int, bool] = {}

    async def has_left(self, sequence: int) -> bool:
        if sequence not in self._held:
            self._held[sequence] = await self._feed.holds(sequence)
        return not self._held[sequence]

    async def lost_its_beginning(self, job: int) -> bool:
        """True if retention purged the earlier runs of a job that was retried."""
        query = (
            "SELECT live.job FROM live.jobs_projection AS live JOIN fresh.jobs_projection AS fresh "
            "ON live.id = fresh.id AND live.service = fresh.service AND live.type = fresh.type "
            "WHERE fresh.job = ?"
        )
        before = list(await self._database.execute_fetchall(query, (job,)))
        return bool(before) and before[0][0] < job and await self.has_left(before[0][0])


class _Comparison:
    def __init__(self, database: aiosqlite.Connection, traces: Traces, now: datetime) -> None:
        self._database = database
        self._traces = traces
        self._purged_before = minute(now) - _NOTHING_PURGED

    async def compare(self, table: Table) -> Compared:
        columns = await self._columns(table)
        compared = Compared(table.name, await self._count(table))
        async with self._database.execute(_differences(table, columns)) as rows:
            async for row in rows:
                difference = _difference(table, columns, row)
                if await self._is_about_what_left(table, difference):
                    compared.gone += 1
                    continue
                compared.different += 1
                if len(compared.examples) < EXAMPLES:
                    compared.examples.append(difference)
        return compared

    async def _is_about_what_left(self, table: Table, difference: Difference) -> bool:
        live, fresh = difference.live, difference.fresh
        if table.sequence is not None:
            if live is None:
                is_of_a_job = table.sequence == "job"
                job = difference.key[table.sequence]
                return is_of_a_job and await self._traces.lost_its_beginning(job)
            return fresh is None and await self._traces.has_left(live[table.sequence])
        if table.name == PRESENCE:
            return fresh is None
        return bool(table.counts) and live is not None and self._is_past(table, live, fresh)

    def _is_past(self, table: Table, live: dict[str, Any], fresh: dict[str, Any] | None) -> bool:
        """True if the live row counts more, of a time from which events may have been purged."""
        more = [live[name] - (fresh[name] if fresh else 0) for name in table.counts]
        if min(more) < 0:
            return False
        return first_minute(live) < self._purged_before or _is_of_revived_jobs(table, live, more)

    async def _columns(self, table: Table) -> list[str]:
        query = "SELECT name FROM pragma_table_info(?, 'live')"
        rows = await self._database.execute_fetchall(query, (table.name,))
        return [str(name) for (name,) in rows]

    async def _count(self, table: Table) -> int:
        query = f"SELECT count(*) FROM live.{table.name}"  # noqa: S608 - our own tables
        [(count,)] = await self._database.execute_fetchall(query)
        return int(count)


def _is_of_revived_jobs(table: Table, live: dict[str, Any], more: Sequence[int]) -> bool:
    """True if only exits from an end state are missing: the earlier runs of a job were purged."""
    return table.name == STATE_CHANGES and more[0] == 0 and live["state"] in OVER


def _differences(table: Table, columns: Sequence[str]) -> str:
    """A query for rows that only one side has, and rows that differ."""
    live, fresh = f"live.{table.name} AS live", f"{table.source} AS fresh"
    on = " AND ".join(f"live.{column} = fresh.{column}" for column in table.key)
    both = ", ".join(f"{side}.{column}" for side in ("live", "fresh") for column in columns)
    lacks = f"{{}}.{table.key[0]} IS NULL"
    others = [column for column in columns if column not in table.key]
    differ = " OR ".join(f"live.{column} IS NOT fresh.{column}" for column in others) or "FALSE"
    return (
        f"SELECT {both} FROM {live} LEFT JOIN {fresh} ON {on} "  # noqa: S608 - our own tables
        f"WHERE {lacks.format('fresh')} OR {differ} "
        f"UNION ALL SELECT {both} FROM {fresh} LEFT JOIN {live} ON {on} "
        f"WHERE {lacks.format('live')}"
    )


def _difference(table: Table, columns: Sequence[str], row: Iterable[Any]) -> Difference:
    values = list(row)
    sides = [
        dict(zip(columns, half, strict=True))
        for half in (values[: len(columns)], values[len(columns) :])
    ]
    live, fresh = (side if side[table.key[0]] is not None else None for side in sides)
    there = live or fresh or {}
    return Difference(table.name, {name: there[name] for name in table.key}, live, fresh)


@asynccontextmanager
async def _seen_now(path: Path) -> AsyncIterator[aiosqlite.Connection]:
    """A snapshot of the file at the time of the first query."""
    async with aiosqlite.connect(":memory:", isolation_level=None, uri=True) as database:
        await database.execute("ATTACH ? AS live", (read_only(path),))
        await database.execute("BEGIN")
        yield database
