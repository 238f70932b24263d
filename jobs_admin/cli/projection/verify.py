"""`trellis-jobs projection verify`."""

from __future__ import annotations

from pathlib import Path

from jobs_admin.api.errors import AdminError
from jobs_admin.cli.connection import ConnectionOptions
from jobs_admin.cli.logs import LogFormat, LogLevel, set_up_logs
from jobs_admin.cli.options import Database
from jobs_admin.cli.render.columns import Columns, fit_table
from jobs_admin.cli.render.counts import count
from jobs_admin.cli.render.output import JsonOutput, console, print_json, progress_bar
from jobs_admin.cli.run import collect_rarely, run
from jobs_admin.config import default_path
from jobs_admin.projection.verify import Findings
from jobs_admin.projection.verify import verify as verify_file
from trellis_jobs.environment import utc_now
from trellis_jobs.jetstream.log.feed import LogFeed


class ProjectionDiffers(AdminError):
    def __init__(self, rows: int) -> None:
        super().__init__(f"{rows} rows differ from the log: run `trellis-jobs projection rebuild`")


def verify(options: ConnectionOptions, output: JsonOutput, db: Database = None) -> None:
    """Compare every row of the projection with the log. Exits with 1 if any differs.

    An admin runtime may keep running. Rows whose events have been removed from the log are
    counted separately.
    """
    set_up_logs(LogFormat.TEXT, LogLevel.ERROR)
    collect_rarely()
    run(_verify(options, db or default_path(), output))


async def _verify(options: ConnectionOptions, path: Path, output: JsonOutput) -> None:
    async with options.connection(reconnect=True) as connection:
        with progress_bar("verifying") as progress:
            findings = await verify_file(path, LogFeed(connection), utc_now(), progress)
    if output.json:
        print_json(findings.to_json())
    else:
        _show(findings)
    if not findings.is_equal:
        raise ProjectionDiffers(sum(table.different for table in findings.tables))


def _show(findings: Findings) -> None:
    numbers = ("rows", "different", "not in log")
    rows = [
        dict(zip(("table", *numbers), map(str, counts), strict=True))
        for counts in ((one.table, one.rows, one.different, one.gone) for one in findings.tables)
    ]
    shown = console()
    shown.print(fit_table(Columns(names=("table", *numbers), right=numbers), rows, shown.width))
    shown.print(
        f"compared with {count(findings.messages)} messages, up to sequence {findings.position}"
    )
    for one in findings.tables:
        for example in one.examples:
            shown.print(f"{example.table} {example.key}", style="bold")
            for column, (live, fresh) in example.changed().items():
                shown.print(f"  {column}: {live!r:.200} should be {fresh!r:.200}", markup=False)
