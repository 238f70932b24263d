"""`trellis-jobs workers terminate`."""

from __future__ import annotations

from jobs_admin.cli.connection import ConnectionOptions
from jobs_admin.cli.render.output import JsonOutput
from jobs_admin.cli.workers.directive import DirectiveOptions, Phase, direct_workers
from jobs_admin.cli.workers.selection import WorkerSelection
from trellis_jobs.model.worker_states import WorkerState


def terminate(
    selection: WorkerSelection,
    change: DirectiveOptions,
    output: JsonOutput,
    options: ConnectionOptions,
) -> None:
    """Let workers stop: they finish their jobs within their grace period and put the rest back.

    What starts workers on that machine (systemd, Kubernetes) may start them again.

    Exits with 0 if all workers were directed and, with --wait, have followed; with 1 if a
    worker refused; with 3 if no worker matches; with 4 if some did not follow in time.
    """
    change.check()
    phases = [Phase("terminate", WorkerState.TERMINATE, change.wait)]
    direct_workers(phases, selection, change, output, options)
