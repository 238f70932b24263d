"""`trellis-jobs workers drain`."""

from __future__ import annotations

from jobs_admin.cli.connection import ConnectionOptions
from jobs_admin.cli.render.output import JsonOutput
from jobs_admin.cli.workers.directive import ChangeOptions, Phase, direct_workers
from jobs_admin.cli.workers.selection import WorkerSelection
from trellis_jobs.model.worker_states import WorkerState


def drain(
    selection: WorkerSelection,
    change: ChangeOptions,
    output: JsonOutput,
    options: ConnectionOptions,
) -> None:
    """Stop workers without interrupting a job: quiet, wait until idle, terminate, wait until gone.

    Start the workers of the new release first, then drain those of the old one with --version.
    --timeout limits each of the two waits. If a worker still has jobs when the first one is over,
    no worker is terminated: all stay quiet until `workers resume` or `workers terminate`.

    Exits with 0 if all workers have stopped; with 1 if a worker refused; with 3 if no worker
    matches; with 4 if some did not follow in time.
    """
    phases = [
        Phase("quiet", WorkerState.QUIET, waits=True),
        Phase("drain", WorkerState.TERMINATE, waits=True),
    ]
    direct_workers(phases, selection, change, output, options)
