"""`trellis-jobs dlq replay`."""

from __future__ import annotations

from jobs_admin.cli.bulk.command import BulkOptions, run_bulk
from jobs_admin.cli.bulk.targets import JobSelection
from jobs_admin.cli.bulk.verbs import REPLAY
from jobs_admin.cli.connection import AdminConnectionOptions
from jobs_admin.cli.render.output import Output


def replay(
    selection: JobSelection, bulk: BulkOptions, output: Output, options: AdminConnectionOptions
) -> None:
    """Run dead jobs again, by id or by filter.

    They keep their ids and their history, and get all of their tries again. Use --rate to limit
    the load on the systems that the jobs call.
    """
    run_bulk(REPLAY, selection, bulk, output, options)
