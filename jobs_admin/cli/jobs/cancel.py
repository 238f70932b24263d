"""`trellis-jobs jobs cancel`."""

from __future__ import annotations

from jobs_admin.cli.bulk.command import BulkOptions, run_bulk
from jobs_admin.cli.bulk.targets import JobSelectionByState
from jobs_admin.cli.bulk.verbs import CANCEL
from jobs_admin.cli.connection import AdminConnectionOptions
from jobs_admin.cli.render.output import Output


def cancel(
    selection: JobSelectionByState,
    bulk: BulkOptions,
    output: Output,
    options: AdminConnectionOptions,
) -> None:
    """Cancel jobs that have not ended, by id or by filter.

    The worker interrupts a handler that is running. A filter selects jobs that are delayed,
    pending, waiting for a retry, or active.
    """
    run_bulk(CANCEL, selection, bulk, output, options)
