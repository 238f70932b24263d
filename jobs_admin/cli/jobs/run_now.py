"""`trellis-jobs jobs run-now`."""

from __future__ import annotations

from jobs_admin.cli.bulk.command import BulkOptions, run_bulk
from jobs_admin.cli.bulk.targets import JobSelectionByState
from jobs_admin.cli.bulk.verbs import RUN_NOW
from jobs_admin.cli.connection import AdminConnectionOptions
from jobs_admin.cli.render.output import Output


def run_now(
    selection: JobSelectionByState,
    bulk: BulkOptions,
    output: Output,
    options: AdminConnectionOptions,
) -> None:
    """Let jobs run that are delayed or wait for their next try, by id or by filter.

    A worker of their service releases them to their queues. With --rate, it releases at most so
    many per second.
    """
    run_bulk(RUN_NOW, selection, bulk, output, options)
