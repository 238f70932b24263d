"""`trellis-jobs operations stop`."""

from __future__ import annotations

from jobs_admin.views.operations import OperationView
from trellis_jobs.cli.authorship import By, person
from trellis_jobs.cli.operations.get import OperationId, show
from trellis_jobs.cli.reach import AdminReach
from trellis_jobs.cli.running import run
from trellis_jobs.cli.showing.output import Output


def stop(operation: OperationId, output: Output, reach: AdminReach, by: By = None) -> None:
    """Stop an operation. Jobs that it has changed stay changed; the others stay as they are."""
    run(_stop(reach, operation, output, person(by)))


async def _stop(reach: AdminReach, operation_id: str, output: Output, by: str | None) -> None:
    async with reach.admin(by=by) as admin:
        stopped: OperationView = await admin.stop_operation(operation_id)
    show(stopped, output)
