"""`trellis-jobs projection status`, `rebuild` and `verify`: the file, whoever fills it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from jobs_admin.api.errors import AdminError
from jobs_admin.cli.connection import ConnectionOptions
from jobs_admin.cli.exit_codes import ANOTHER_FILE
from jobs_admin.cli.logs import LogFormat, LogLevel, set_up_logs
from jobs_admin.cli.options import Database
from jobs_admin.cli.render.columns import Columns, fitting
from jobs_admin.cli.render.counts import count
from jobs_admin.cli.render.output import (
    JsonOutput,
    console,
    print_json,
    print_text,
    progress_bar,
)
from jobs_admin.cli.run import collect_rarely, run
from jobs_admin.config import default_path
from jobs_admin.projection import rebuild as rebuilding
from jobs_admin.projection import verify as verifying
from jobs_admin.projection.compatibility import why_incompatible
from jobs_admin.projection.files import FileDamaged, beside
from jobs_admin.projection.status import read_status
from jobs_admin.projection.verify import Findings
from trellis_jobs.environment import utc_now
from trellis_jobs.jetstream.log.feed import LogFeed

_YES_OR_NO: Final = {True: "yes", False: "no"}


class ProjectionUnfit(AdminError):
    """Status found that the file cannot be gone on with."""


class ProjectionDiffers(AdminError):
    def __init__(self, rows: int) -> None:
        super().__init__(
            f"{rows} rows are not as the log says: run `trellis-jobs projection rebuild`"
        )


def status(reach: ConnectionOptions, output: JsonOutput, db: Database = None) -> None:
    """How far the projection is, and whether it fits the log; ends with 1 if it does not."""
    run(_status(reach, db or default_path(), output))


def rebuild(reach: ConnectionOptions, output: JsonOutput, db: Database = None) -> None:
    """Make the projection anew from the log.

    It is made beside the old file, which serves until the moment of the swap. An admin runtime that
    has the old file open goes on with the new one.
    """
    set_up_logs(LogFormat.TEXT, LogLevel.ERROR)
    collect_rarely()
    run(_rebuild(reach, db or default_path(), output))


def verify(reach: ConnectionOptions, output: JsonOutput, db: Database = None) -> None:
    """Compare every row with what the log says; ends with 1 where they differ.

    An admin runtime may go on meanwhile. Rows about what has left the log are counted apart.
    """
    set_up_logs(LogFormat.TEXT, LogLevel.ERROR)
    collect_rarely()
    run(_verify(reach, db or default_path(), output))


async def _status(reach: ConnectionOptions, path: Path, output: JsonOutput) -> None:
    async with _feed(reach, patient=False) as feed:
        found = await read_status(path, feed)
    if output.json:
        print_json(found.to_json())
    else:
        for name, value in found.to_json().items():
            print_text(f"{name:<14} {_YES_OR_NO.get(value, value) if name == 'fits' else value}")
    if found.unfit is not None:
        raise ProjectionUnfit(f"{path}: {found.unfit}; {ANOTHER_FILE}")


async def _rebuild(reach: ConnectionOptions, path: Path, output: JsonOutput) -> None:
    damaged = None
    async with _feed(reach) as feed:
        try:
            await why_incompatible(path, feed)
        except FileDamaged:
            damaged = beside(path, "damaged")
        with progress_bar("rebuilding") as done:
            filled = await rebuilding.rebuild(path, feed, done, keep_old_as=damaged)
    if output.json:
        body = {"path": str(path), "messages": filled.messages, "position": filled.position}
        print_json(body)
    else:
        print_text(
            f"{path} holds {count(filled.messages)} messages of the log, up to {filled.position}"
        )


async def _verify(reach: ConnectionOptions, path: Path, output: JsonOutput) -> None:
    async with _feed(reach) as feed:
        with progress_bar("verifying") as done:
            verdict = await verifying.verify(path, feed, utc_now(), done)
    if output.json:
        print_json(verdict.to_json())
    else:
        _show(verdict)
    if not verdict.is_equal:
        raise ProjectionDiffers(sum(table.different for table in verdict.tables))


@asynccontextmanager
async def _feed(reach: ConnectionOptions, *, patient: bool = True) -> AsyncIterator[LogFeed]:
    async with reach.connection(patient=patient) as connection:
        yield LogFeed(connection)


def _show(verdict: Findings) -> None:
    numbers = ("rows", "different", "of what left the log")
    rows = [
        dict(zip(("table", *numbers), map(str, counts), strict=True))
        for counts in ((one.table, one.rows, one.different, one.gone) for one in verdict.tables)
    ]
    out = console()
    out.print(fitting(Columns(names=("table", *numbers), right=numbers), rows, out.width))
    out.print(f"compared with {count(verdict.messages)} messages up to {verdict.position}")
    for one in verdict.tables:
        for example in one.examples:
            out.print(f"{example.table} {example.key}", style="bold")
            for column, (live, fresh) in example.changed().items():
                out.print(f"  {column}: {live!r:.200} should be {fresh!r:.200}", markup=False)
