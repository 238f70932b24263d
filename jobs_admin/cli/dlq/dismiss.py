"""`trellis-jobs dlq dismiss`."""

from __future__ import annotations

from jobs_admin.cli.bulk.command import BulkOptions, run_bulk
from jobs_admin.cli.bulk.targets import JobSelection
from jobs_admin.cli.bulk.verbs import DISMISS
from jobs_admin.cli.connection import AdminConnectionOptions
from jobs_admin.cli.render.output import Output


def dismiss(
    selection: JobSelection, bulk: BulkOptions, output: Output, options: AdminConnectionOptions
) -> None:
    """Dismiss dead jobs, by id or by filter: they leave this list and do not run again."""
    run_bulk(DISMISS, selection, bulk, output, options)
