"""`trellis-jobs projection rebuild`."""

from __future__ import annotations

from pathlib import Path

from jobs_admin.cli.connection import ConnectionOptions
from jobs_admin.cli.logs import LogFormat, LogLevel, set_up_logs
from jobs_admin.cli.options import Database
from jobs_admin.cli.render.counts import count
from jobs_admin.cli.render.output import JsonOutput, print_json, print_text, progress_bar
from jobs_admin.cli.run import collect_rarely, run
from jobs_admin.config import default_path
from jobs_admin.projection.compatibility import why_incompatible
from jobs_admin.projection.files import FileDamaged, beside
from jobs_admin.projection.rebuild import rebuild as rebuild_file
from trellis_jobs.jetstream.log.feed import LogFeed


def rebuild(options: ConnectionOptions, output: JsonOutput, db: Database = None) -> None:
    """Build the projection again from the log.

    The new file is built next to the old one and then replaces it. An admin runtime that has the
    old file open serves from it until then, and continues with the new one.
    """
    set_up_logs(LogFormat.TEXT, LogLevel.ERROR)
    collect_rarely()
    run(_rebuild(options, db or default_path(), output))


async def _rebuild(options: ConnectionOptions, path: Path, output: JsonOutput) -> None:
    damaged = None
    async with options.connection(reconnect=True) as connection:
        feed = LogFeed(connection)
        try:
            await why_incompatible(path, feed)
        except FileDamaged:
            damaged = beside(path, "damaged")
        with progress_bar("rebuilding") as progress:
            filled = await rebuild_file(path, feed, progress, keep_old_as=damaged)
    if output.json:
        body = {"path": str(path), "messages": filled.messages, "position": filled.position}
        print_json(body)
    else:
        print_text(
            f"{path} contains {count(filled.messages)} messages of the log, up to sequence "
            f"{filled.position}"
        )
