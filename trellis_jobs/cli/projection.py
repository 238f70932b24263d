"""`trellis-jobs projection`: the operators' view of the log, looked at, made anew and checked."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Annotated, Any

import orjson
import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from jobs_admin.config import PATH_VARIABLE, default_path
from jobs_admin.errors import AdminError
from jobs_admin.projection import rebuild as rebuilding
from jobs_admin.projection import verify as verifying
from jobs_admin.projection.files import FileDamaged, beside
from jobs_admin.projection.fitness import why_unfit
from jobs_admin.projection.rebuild import Progress as Done
from jobs_admin.projection.status import look
from jobs_admin.projection.verify import Verdict
from trellis_jobs.cli.logs import LogFormat, LogLevel, set_up_logs
from trellis_jobs.cli.options import DEFAULT_SERVER, Credentials, Server
from trellis_jobs.cli.running import collect_rarely, run
from trellis_jobs.jetstream.connection import Connection
from trellis_jobs.jetstream.log_feed import LogFeed
from trellis_jobs.surroundings import utc_now

projection = typer.Typer(
    help="The projection of the log: a SQLite file that may be deleted, and is made again.",
    no_args_is_help=True,
)

Database = Annotated[
    Path | None,
    typer.Option(
        "--db", envvar=PATH_VARIABLE, help="The projection's file.", metavar="FILE", dir_okay=False
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]


class ProjectionUnfit(AdminError):
    """Status found that the file cannot be gone on with."""


class ProjectionDiffers(AdminError):
    def __init__(self, rows: int) -> None:
        super().__init__(
            f"{rows} rows are not as the log says: run `trellis-jobs projection rebuild`"
        )


@projection.command()
def status(
    nats: Server = DEFAULT_SERVER,
    creds: Credentials = None,
    db: Database = None,
    json: Json = False,
) -> None:
    """How far the projection is, and whether it fits the log; ends with 1 if it does not."""
    run(_status(nats, creds, db or default_path(), json))


@projection.command()
def rebuild(
    nats: Server = DEFAULT_SERVER,
    creds: Credentials = None,
    db: Database = None,
    json: Json = False,
) -> None:
    """Make the projection anew from the log.

    It is made beside the old file, which serves until the moment of the swap. An admin runtime that
    has the old file open goes on with the new one.
    """
    set_up_logs(LogFormat.TEXT, LogLevel.ERROR)
    collect_rarely()
    run(_rebuild(nats, creds, db or default_path(), json))


@projection.command()
def verify(
    nats: Server = DEFAULT_SERVER,
    creds: Credentials = None,
    db: Database = None,
    json: Json = False,
) -> None:
    """Compare every row with what the log says; ends with 1 where they differ.

    An admin runtime may go on meanwhile. Rows about what has left the log are counted apart.
    """
    set_up_logs(LogFormat.TEXT, LogLevel.ERROR)
    collect_rarely()
    run(_verify(nats, creds, db or default_path(), json))


async def _status(nats: str, creds: Path | None, path: Path, json: bool) -> None:
    async with _feed(nats, creds) as feed:
        found = await look(path, feed)
    if json:
        _print(found.to_json())
    else:
        for name, value in found.to_json().items():
            print(f"{name:<14} {value}")
    if found.unfit is not None:
        raise ProjectionUnfit(f"{path}: {found.unfit}")


async def _rebuild(nats: str, creds: Path | None, path: Path, json: bool) -> None:
    damaged = None
    async with _feed(nats, creds) as feed:
        try:
            await why_unfit(path, feed)
        except FileDamaged:
            damaged = beside(path, "damaged")
        with _bar("rebuilding") as done:
            filled = await rebuilding.rebuild(path, feed, done, keep_old_as=damaged)
    if json:
        body = {"path": str(path), "messages": filled.messages, "position": filled.position}
        _print(body)
    else:
        print(f"{path} holds {filled.messages} messages of the log, up to {filled.position}")


async def _verify(nats: str, creds: Path | None, path: Path, json: bool) -> None:
    async with _feed(nats, creds) as feed:
        with _bar("verifying") as done:
            verdict = await verifying.verify(path, feed, utc_now(), done)
    if json:
        _print(verdict.to_json())
    else:
        _show(verdict)
    if not verdict.is_equal:
        raise ProjectionDiffers(sum(table.different for table in verdict.tables))


@asynccontextmanager
async def _feed(nats: str, creds: Path | None) -> AsyncIterator[LogFeed]:
    credentials = str(creds) if creds else None
    connection = await Connection.open(nats, name="jobs projection", credentials=credentials)
    try:
        yield LogFeed(connection)
    finally:
        await connection.close()


@contextmanager
def _bar(what: str) -> Iterator[Done]:
    """On stderr, and only where somebody watches."""
    columns = (TextColumn(what), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    console = Console(stderr=True)
    with Progress(
        *columns, console=console, transient=True, disable=not sys.stderr.isatty()
    ) as bar:
        task = bar.add_task(what, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


def _show(verdict: Verdict) -> None:
    shown = Table("table", "rows", "different", "of what left the log")
    for table in verdict.tables:
        shown.add_row(table.table, str(table.rows), str(table.different), str(table.gone))
    console = Console()
    console.print(shown, f"compared with {verdict.messages} messages up to {verdict.position}")
    for table in verdict.tables:
        for example in table.examples:
            console.print(f"{example.table} {example.key}", style="bold")
            for column, (live, fresh) in example.changed().items():
                console.print(f"  {column}: {live!r:.200} should be {fresh!r:.200}", markup=False)


def _print(body: dict[str, Any]) -> None:
    print(orjson.dumps(body, option=orjson.OPT_INDENT_2).decode())
