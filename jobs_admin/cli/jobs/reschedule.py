"""`trellis-jobs jobs reschedule`."""

from __future__ import annotations

from datetime import UTC, datetime

from jobs_admin.cli.bulk.command import BulkOptions, run_bulk
from jobs_admin.cli.bulk.targets import JobSelectionByState
from jobs_admin.cli.bulk.verbs import reschedule_to
from jobs_admin.cli.connection import AdminConnectionOptions
from jobs_admin.cli.exit_codes import UsageError
from jobs_admin.cli.render.output import Output
from jobs_admin.cli.run_time import RunTimeOptions


def reschedule(
    selection: JobSelectionByState,
    run_time: RunTimeOptions,
    bulk: BulkOptions,
    output: Output,
    options: AdminConnectionOptions,
) -> None:
    """Move jobs that wait to another time, by id or by filter.

    A job waits if it is delayed, pending, or between two tries. It keeps its tries and its history.
    A job that would expire before the new time is refused.
    """
    run_at = run_time.moment(datetime.now(UTC))
    if run_at is None:
        raise UsageError("say when the jobs are to run: --in 10m, or --at 2027-01-01T09:00+01:00")
    run_bulk(reschedule_to(run_at), selection, bulk, output, options)
