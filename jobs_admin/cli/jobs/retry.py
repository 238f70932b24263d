"""`trellis-jobs jobs retry`."""

from __future__ import annotations

from jobs_admin.cli.bulk.command import BulkOptions, run_bulk
from jobs_admin.cli.bulk.targets import JobSelectionByState
from jobs_admin.cli.bulk.verbs import RETRY
from jobs_admin.cli.connection import AdminConnectionOptions
from jobs_admin.cli.render.output import Output


def retry(
    selection: JobSelectionByState,
    bulk: BulkOptions,
    output: Output,
    options: AdminConnectionOptions,
) -> None:
    """Run failed or dead jobs again, by id or by filter.

    They keep their ids and their history, and get all of their tries again.
    """
    run_bulk(RETRY, selection, bulk, output, options)
