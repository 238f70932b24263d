"""`trellis-jobs projection status`."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from jobs_admin.api.errors import AdminError
from jobs_admin.cli.connection import ConnectionOptions
from jobs_admin.cli.exit_codes import ANOTHER_FILE
from jobs_admin.cli.options import Database
from jobs_admin.cli.render.output import JsonOutput, print_json, print_text
from jobs_admin.cli.run import run
from jobs_admin.config import default_path
from jobs_admin.projection.status import read_status
from trellis_jobs.jetstream.log.feed import LogFeed

_YES_OR_NO: Final = {True: "yes", False: "no"}


class ProjectionUnfit(AdminError):
    """An admin runtime cannot continue with this file."""


def status(options: ConnectionOptions, output: JsonOutput, db: Database = None) -> None:
    """Show the position of the projection, and whether it fits the log.

    Exits with 1 if it does not fit.
    """
    run(_status(options, db or default_path(), output))


async def _status(options: ConnectionOptions, path: Path, output: JsonOutput) -> None:
    async with options.connection() as connection:
        found = await read_status(path, LogFeed(connection))
    if output.json:
        print_json(found.to_json())
    else:
        for name, value in found.to_json().items():
            print_text(f"{name:<14} {_YES_OR_NO.get(value, value) if name == 'fits' else value}")
    if found.unfit is not None:
        raise ProjectionUnfit(f"{path}: {found.unfit}. {ANOTHER_FILE}")
