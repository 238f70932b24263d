"""The projection's SQLite file: one writer, and as many readers as there are questions."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final

import aiosqlite

from jobs_admin.errors import ProjectionOutdated
from jobs_admin.projection.files import FileDamaged, FileReplaced, file_id, made
from jobs_admin.projection.rows import (
    COLUMNS,
    departed_rows,
    from_row,
    ignored_rows,
    line_rows,
    outdated_lines,
    payload_rows,
    sighting_rows,
    to_row,
)
from jobs_admin.projection.schema import SCHEMA_VERSION, indexes_script, tables_script
from jobs_admin.projection.tallies import TALLIES
from trellis_jobs.errors import JobsError
from trellis_jobs.jetstream.log_feed import Place
from trellis_jobs.model import subjects

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Collection, Iterable, Mapping
    from pathlib import Path

    from jobs_admin.projection.batch import Changes, JobRow
    from jobs_admin.projection.files import FileId
    from jobs_admin.projection.tallies import Move
    from trellis_jobs.model.identity import JobAddress

ACTIVITY_MINUTES: Final = 24 * 60
PRESENCE_KEPT: Final = 24 * 60 * 60 * 1_000_000
_LOADED_AT_ONCE: Final = 500

_UPSERT_JOB: Final = (
    f"INSERT INTO jobs_projection ({', '.join(COLUMNS)}) "  # noqa: S608 - our own column names
    f"VALUES ({', '.join('?' * len(COLUMNS))}) ON CONFLICT (job) DO UPDATE SET "
    + ", ".join(f"{column} = excluded.{column}" for column in COLUMNS[4:])
)
_COUNT_ACTIVITY: Final = (
    "INSERT INTO job_activity VALUES (?, ?, ?, ?, ?) "
    "ON CONFLICT (minute, service, type, kind) DO UPDATE SET events = events + excluded.events"
)
_FORGET_ACTIVITY: Final = (
    "DELETE FROM job_activity WHERE minute < (SELECT max(minute) FROM job_activity) - ?"
)
_SIGHT: Final = (
    "INSERT INTO worker_presence_projection VALUES (?, ?, ?, ?, ?, ?, ?) "
    "ON CONFLICT (service, type, instance) DO UPDATE SET seen_at = excluded.seen_at, "
    "said_at = excluded.said_at, concurrency = excluded.concurrency, version = excluded.version"
)
# By the newest of them, also of one that leaves: the same log always leads to the same rows.
_FORGET_SIGHTS: Final = (
    "DELETE FROM worker_presence_projection "
    "WHERE seen_at < (SELECT max(seen_at) FROM worker_presence_projection) - ?"
)
_LOSE_SIGHT: Final = (
    "DELETE FROM worker_presence_projection WHERE service = ? AND type = ? AND instance = ?"
)
_FORGET_JOB: Final = (
    "DELETE FROM jobs_projection WHERE job = ?",
    "DELETE FROM job_logs WHERE job = ?",
    "DELETE FROM payload_values WHERE job = ?",
)
_FORGET_IGNORED: Final = "DELETE FROM ignored_events WHERE service = ? AND type = ? AND id = ?"
# Whatever is under the job's own subjects: after a dot comes a slash.
_FORGET_ASIDE: Final = (
    "DELETE FROM undecodable_messages WHERE subject > ?1 || '.' AND subject < ?1 || '/' "
    "AND sequence <= ?2"
)
_SET: Final = "INSERT OR REPLACE INTO projection_metadata VALUES (?, ?)"


class Projection:
    """The one writer. Everything that a batch changes is one transaction, its position included."""

    def __init__(self, database: aiosqlite.Connection, path: Path, file: FileId | None) -> None:
        self.path = path
        self._database = database
        self._file = file

    @classmethod
    @asynccontextmanager
    async def open(cls, path: Path, *, bulk: bool = False) -> AsyncIterator[Projection]:
        """`bulk`: for a file that nobody reads yet, and that is thrown away if this fails.

        Raises ProjectionOutdated when the file has another schema.
        """
        file = made(path)
        async with aiosqlite.connect(path, isolation_level=None) as database:
            await _prepare(database, bulk=bulk)
            version = await metadata(database, "schema_version")
            if version != str(SCHEMA_VERSION):
                raise ProjectionOutdated(path, version, SCHEMA_VERSION)
            if file_id(path) != file:
                raise FileReplaced(path)
            yield cls(database, path, file)

    async def place(self) -> Place:
        """How far this is, and in which log; None before it belongs to one."""
        return await place_of(self._database)

    async def set_place(self, place: Place) -> None:
        """Without a batch: the log has nothing more to take in up to there."""
        await self._many(_SET, _place_rows(place))
        await self._many(_SET, [("stream_created", place.created)] if place.created else [])

    async def load(self, addresses: Collection[JobAddress]) -> dict[JobAddress, JobRow]:
        """Those of the jobs that there are."""
        wanted = list(addresses)
        found: dict[JobAddress, JobRow] = {}
        for start in range(0, len(wanted), _LOADED_AT_ONCE):
            ids = [address.job_id for address in wanted[start : start + _LOADED_AT_ONCE]]
            marks = ", ".join("?" * len(ids))
            query = (
                "SELECT job, last_sequence, last_stored_at, lines, document "  # noqa: S608
                f"FROM jobs_projection WHERE id IN ({marks})"
            )
            for columns in await self._database.execute_fetchall(query, ids):
                row = self._known(*columns)
                if row.job.address in addresses:
                    found[row.job.address] = row
        return found

    def _known(self, *columns: Any) -> JobRow:
        try:
            return from_row(*columns)
        except (ValueError, TypeError, JobsError) as error:
            raise FileDamaged(f"{self.path} holds what is no job: {error}") from error

    async def apply(self, changes: Changes) -> None:
        async with self._transaction():
            await self._write(changes)
        for row in changes.jobs.values():
            row.written = row.job

    async def forget(
        self, rows: Collection[JobRow], up_to: Mapping[JobAddress, int], left: Changes
    ) -> None:
        """Jobs that retention has taken out of the log leave no row behind but what is left."""
        addresses = [row.job.address for row in rows]
        async with self._transaction():
            for statement in _FORGET_JOB:
                await self._many(statement, [(row.number,) for row in rows])
            await self._many(
                _FORGET_IGNORED, [(a.service, a.job_type, a.job_id) for a in addresses]
            )
            await self._many(_FORGET_ASIDE, [(subjects.of_job(a), up_to[a]) for a in addresses])
            await self._count([(row.written, None) for row in rows])
            await self._write(left)

    async def add_indexes(self) -> None:
        """At the end of a bulk load: sorting once is cheaper than keeping sorted."""
        await self._database.executescript(indexes_script())
        await self._database.execute("PRAGMA optimize")

    async def seal(self) -> None:
        """From now on others may read it while one writes."""
        await self._database.execute("PRAGMA journal_mode = WAL")

    @asynccontextmanager
    async def _transaction(self) -> AsyncIterator[None]:
        """Raises FileReplaced, with nothing written, when the file is no longer the one to fill.

        Whoever replaces it holds its write lock (rebuild.py): so nothing that was taken in is lost.
        """
        await self._database.execute("BEGIN IMMEDIATE")
        try:
            if file_id(self.path) != self._file:
                raise FileReplaced(self.path)
            yield
        except BaseException:
            await self._database.execute("ROLLBACK")
            raise
        await self._database.execute("COMMIT")

    async def _write(self, changes: Changes) -> None:
        rows = changes.jobs.values()
        await self._many(_UPSERT_JOB, [to_row(row) for row in rows])
        await self._count([(row.written, row.job) for row in rows])
        await self._many(
            "INSERT OR IGNORE INTO payload_values VALUES (?, ?)", payload_rows(changes)
        )
        await self._many("INSERT INTO job_logs VALUES (?, ?, ?, ?, ?, ?)", line_rows(changes))
        await self._many(
            "DELETE FROM job_logs WHERE job = ? AND number <= ?", outdated_lines(changes)
        )
        if changes.presence:
            await self._many(_SIGHT, sighting_rows(changes))
            await self._database.execute(_FORGET_SIGHTS, (PRESENCE_KEPT,))
            await self._many(_LOSE_SIGHT, departed_rows(changes))
        await self._many(
            "INSERT OR IGNORE INTO ignored_events VALUES (?, ?, ?, ?, ?, ?)", ignored_rows(changes)
        )
        await self._many(
            "INSERT OR IGNORE INTO undecodable_messages VALUES (?, ?, ?, ?)",
            [(a.sequence, a.subject, a.reason, a.excerpt) for a in changes.aside],
        )
        await self._many(_COUNT_ACTIVITY, [(*what, n) for what, n in changes.activity.items()])
        await self._database.execute(_FORGET_ACTIVITY, (ACTIVITY_MINUTES,))
        await self._many(_SET, _place_rows(changes.place))

    async def _count(self, moves: Collection[Move]) -> None:
        for tally in TALLIES:
            changes = tally.changes(moves)
            await self._many(tally.add, [(*kind, *numbers) for kind, numbers in changes])
            fewer = [kind for kind, numbers in changes if numbers[0] < 0]
            await self._many(tally.clear, fewer)

    async def _many(self, statement: str, rows: Iterable[tuple[Any, ...]]) -> None:
        listed = list(rows)
        if listed:
            await self._database.executemany(statement, listed)


async def _prepare(database: aiosqlite.Connection, *, bulk: bool) -> None:
    journal = "OFF" if bulk else "WAL"
    await database.execute(f"PRAGMA journal_mode = {journal}")
    # A power cut may cost the newest batches: they are in the log, and are taken in again.
    await database.execute(f"PRAGMA synchronous = {'OFF' if bulk else 'NORMAL'}")
    await database.execute("PRAGMA busy_timeout = 5000")
    await database.execute("PRAGMA cache_size = -65536")
    tables = await database.execute_fetchall("SELECT name FROM sqlite_master LIMIT 1")
    if not list(tables):
        await database.executescript(tables_script() + ("" if bulk else indexes_script()))
        await database.execute(_SET, ("schema_version", str(SCHEMA_VERSION)))


async def place_of(database: aiosqlite.Connection) -> Place:
    return Place(
        int(await metadata(database, "position") or 0),
        int(await metadata(database, "position_stored_ns") or 0),
        await metadata(database, "stream_created"),
    )


async def metadata(database: aiosqlite.Connection, name: str) -> str | None:
    query = "SELECT value FROM projection_metadata WHERE name = ?"
    try:
        rows = list(await database.execute_fetchall(query, (name,)))
    except aiosqlite.OperationalError:
        return None
    return str(rows[0][0]) if rows else None


def _place_rows(place: Place) -> list[tuple[str, str]]:
    return [("position", str(place.sequence)), ("position_stored_ns", str(place.stored_ns))]
