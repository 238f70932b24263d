"""Writes a projection's file. Everything that a batch changes is one transaction."""

from __future__ import annotations

from contextlib import contextmanager
from math import inf
from typing import TYPE_CHECKING, Final

from jobs_admin.api.errors import ProjectionOutdated
from jobs_admin.projection import statements as sql
from jobs_admin.projection.counters import COUNTER_TABLES
from jobs_admin.projection.files import FileDamaged, FileReplaced, file_id
from jobs_admin.projection.metadata import ALL_METADATA, FILLED_AT, position_in, position_rows
from jobs_admin.projection.rows import (
    CHANGE_SLOTS,
    MINUTES_A_DAY,
    action_rows,
    activity_rows,
    counted,
    departed_rows,
    duration_rows,
    from_row,
    hourly_rows,
    ignored_rows,
    line_rows,
    microseconds,
    outdated_lines,
    presence_rows,
    removed_rows,
    state_change_rows,
    to_row,
    value_rows,
)
from jobs_admin.projection.schema import SCHEMA_VERSION, indexes_script, tables_script
from trellis_jobs.errors import JobsError
from trellis_jobs.model import subjects

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
    from datetime import datetime
    from pathlib import Path

    from jobs_admin.projection.batch import Changes, Columns, JobRow
    from jobs_admin.projection.files import FileId
    from trellis_jobs.jetstream.log.feed import LogPosition
    from trellis_jobs.model.identity import JobAddress

ACTIVITY_MINUTES: Final = MINUTES_A_DAY
# Thirty days, and the day in which they begin.
HOURS_KEPT_MINUTES: Final = 31 * MINUTES_A_DAY
# For how many minutes slots of each length are kept.
_SLOTS_KEPT: Final = tuple(
    (minutes, ACTIVITY_MINUTES if minutes == 1 else HOURS_KEPT_MINUTES) for minutes in CHANGE_SLOTS
)
PRESENCE_KEPT: Final = 24 * 60 * 60 * 1_000_000
_LOADED_AT_ONCE: Final = 50


class Writer:
    """The one writer of a file, for one thread."""

    def __init__(self, database: sqlite3.Connection, path: Path, file: FileId | None) -> None:
        self._database = database
        self._path = path
        self._file = file

    def prepare(self, *, bulk: bool) -> None:
        """Raises ProjectionOutdated when the file has another schema."""
        run = self._database.execute
        run(f"PRAGMA journal_mode = {'OFF' if bulk else 'WAL'}")
        # A power cut may cost the newest batches: they are in the log, and are taken in again.
        run(f"PRAGMA synchronous = {'OFF' if bulk else 'NORMAL'}")
        run("PRAGMA busy_timeout = 5000")
        run("PRAGMA cache_size = -65536")
        if run("SELECT name FROM sqlite_master LIMIT 1").fetchone() is None:
            self._database.executescript(tables_script() + ("" if bulk else indexes_script()))
            sql.SET_METADATA.execute(self._database, [("schema_version", str(SCHEMA_VERSION))])
        version = self._metadata().get("schema_version")
        if version != str(SCHEMA_VERSION):
            raise ProjectionOutdated(self._path, version, SCHEMA_VERSION)
        self._check_file()

    def position(self) -> LogPosition:
        return position_in(self._metadata())

    def set_position(self, position: LogPosition) -> None:
        """Without a batch: the log has nothing more to take in up to there."""
        log = [("stream_created", position.created)] if position.created else []
        sql.SET_METADATA.execute(self._database, position_rows(position) + log)

    def load(self, addresses: Collection[JobAddress]) -> dict[JobAddress, JobRow]:
        """Those of the jobs that there are."""
        return self.load_some(list(addresses), inf)[0]

    def load_some(
        self, addresses: Sequence[JobAddress], max_bytes: float
    ) -> tuple[dict[JobAddress, JobRow], Sequence[JobAddress]]:
        """Returns the rows of the first jobs, up to `max_bytes` of them, and the other jobs."""
        found: dict[JobAddress, JobRow] = {}
        for start in range(0, len(addresses), _LOADED_AT_ONCE):
            if max_bytes <= 0:
                return found, addresses[start:]
            for row in self._load(addresses[start : start + _LOADED_AT_ONCE]):
                found[row.job.address] = row
                max_bytes -= row.size
        return found, ()

    def _load(self, addresses: Collection[JobAddress]) -> Iterator[JobRow]:
        requested, ids = frozenset(addresses), [address.job_id for address in addresses]
        query = f"{sql.JOBS} WHERE id IN ({', '.join('?' * len(ids))})"
        for columns in self._database.execute(query, ids):
            row = self._known(columns)
            if row.job.address in requested:
                yield row

    def apply(self, changes: Changes) -> None:
        with self._transaction():
            written = self._write(changes)
        for row, columns in zip(changes.jobs.values(), written, strict=True):
            row.written, row.size = counted(columns), len(columns[-1])

    def forget(
        self,
        rows: Collection[JobRow],
        up_to: Mapping[JobAddress, int],
        left: Changes,
        now: datetime,
    ) -> None:
        """Jobs that retention has taken out of the log leave no row behind but what is left."""
        addresses = [row.job.address for row in rows]
        each = self._database.executemany
        with self._transaction():
            for statement in sql.FORGET_JOB:
                each(statement, [(row.number,) for row in rows])
            named = [(a.service, a.job_type, a.job_id) for a in addresses]
            each(sql.FORGET_IGNORED, named)
            each(sql.FORGET_ACTIONS, named)
            each(sql.FORGET_UNDECODABLE_OF_JOB, [(subjects.of_job(a), up_to[a]) for a in addresses])
            self._count(_written(rows), [])
            removed = removed_rows(now, _written(rows), self._write(left))
            sql.COUNT_REMOVED.execute(self._database, removed)

    def forget_undecodable(self, sequences: Sequence[int]) -> None:
        with self._transaction():
            self._database.executemany(sql.FORGET_UNDECODABLE, [(each,) for each in sequences])

    def add_indexes(self) -> None:
        """At the end of a bulk load: sorting once is cheaper than keeping sorted."""
        self._database.executescript(indexes_script())
        self._database.execute("PRAGMA optimize")

    def set_filled_at(self, now: datetime) -> None:
        """The log had everything until now that the file has; what it lacked, the file lacks."""
        sql.SET_METADATA.execute(self._database, [(FILLED_AT, str(microseconds(now)))])

    def seal(self) -> None:
        """From now on others may read it while one writes."""
        self._database.execute("PRAGMA journal_mode = WAL")

    def close(self) -> None:
        self._database.close()

    def _metadata(self) -> dict[str, str]:
        return dict(self._database.execute(ALL_METADATA))

    def _known(self, columns: Columns) -> JobRow:
        try:
            return from_row(columns)
        except (ValueError, TypeError, JobsError) as error:
            raise FileDamaged(f"{self._path} holds what is no job: {error}") from error

    def _check_file(self) -> None:
        if file_id(self._path) != self._file:
            raise FileReplaced(self._path)

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        """Raises FileReplaced, with nothing written, when the file is no longer the one to fill.

        The process that replaces it holds its write lock (rebuild.py), so no written batch is lost.
        """
        self._database.execute("BEGIN IMMEDIATE")
        try:
            self._check_file()
            yield
            self._database.execute("COMMIT")
        except BaseException:
            # After some errors, such as a full disk, SQLite has rolled back by itself.
            if self._database.in_transaction:
                self._database.execute("ROLLBACK")
            raise

    def _write(self, changes: Changes) -> list[Columns]:
        """Returns the rows of the jobs, in their order."""
        database = self._database
        jobs = [to_row(row) for row in changes.jobs.values()]
        sql.UPSERT_JOBS.execute(database, jobs)
        self._count(_written(changes.jobs.values()), jobs)
        sql.ADD_JOB_VALUES.execute(database, value_rows(changes))
        sql.ADD_LINES.execute(database, line_rows(changes))
        database.executemany(sql.FORGET_LINES, outdated_lines(changes))
        if changes.presence:
            sql.UPSERT_PRESENCE.execute(database, presence_rows(changes))
            database.execute(sql.FORGET_PRESENCE, (PRESENCE_KEPT,))
            database.executemany(sql.DELETE_PRESENCE, departed_rows(changes))
        sql.ADD_IGNORED.execute(database, ignored_rows(changes))
        sql.ADD_ACTIONS.execute(database, action_rows(changes))
        aside = [(a.sequence, a.subject, a.reason, a.size) for a in changes.aside]
        sql.ADD_UNDECODABLE.execute(database, aside)
        if changes.activity:
            self._count_activity(changes)
        sql.SET_METADATA.execute(database, position_rows(changes.position))
        return jobs

    def _count_activity(self, changes: Changes) -> None:
        """What is too old goes by the newest minute: the same log always leads to the same rows."""
        database = self._database
        sql.COUNT_ACTIVITY.execute(database, activity_rows(changes))
        sql.COUNT_HOURS.execute(database, hourly_rows(changes))
        sql.COUNT_STATE_CHANGES.execute(database, state_change_rows(changes))
        sql.COUNT_DURATIONS.execute(database, duration_rows(changes))
        database.execute(sql.FORGET_ACTIVITY, (ACTIVITY_MINUTES,))
        database.execute(sql.FORGET_HOURS, (HOURS_KEPT_MINUTES,))
        for statement in sql.FORGET_SLOTS:
            database.executemany(statement, _SLOTS_KEPT)

    def _count(self, before: Sequence[Columns], after: Sequence[Columns]) -> None:
        for counter in COUNTER_TABLES:
            changes = counter.changes(before, after)
            counter.add.execute(self._database, [(*kind, *numbers) for kind, numbers in changes])
            fewer = [kind for kind, numbers in changes if numbers[0] < 0]
            counter.clear.execute(self._database, fewer)


def _written(rows: Iterable[JobRow]) -> list[Columns]:
    return [row.written for row in rows if row.written is not None]
