"""`trellis-jobs workers quiet`."""

from __future__ import annotations

from jobs_admin.cli.connection import ConnectionOptions
from jobs_admin.cli.render.output import JsonOutput
from jobs_admin.cli.workers.directive import DirectiveOptions, Phase, direct_workers
from jobs_admin.cli.workers.selection import WorkerSelection
from trellis_jobs.model.worker_states import WorkerState


def quiet(
    selection: WorkerSelection,
    change: DirectiveOptions,
    output: JsonOutput,
    options: ConnectionOptions,
) -> None:
    """Let workers finish their jobs and take no new ones, until they are resumed.

    The admin runtime writes the directives if one answers (Jobs.DirectWorkers). Otherwise the
    command writes them into the workers' records itself, which needs the permission for that. A
    worker follows within a second; one that is not connected follows when it is back.

    Exits with 0 if all workers were directed and, with --wait, have followed; with 1 if a
    worker refused; with 3 if no worker matches; with 4 if some did not follow in time.
    """
    change.check()
    phases = [Phase("quiet", WorkerState.QUIET, change.wait)]
    direct_workers(phases, selection, change, output, options)
