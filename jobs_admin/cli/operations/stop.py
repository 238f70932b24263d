"""`trellis-jobs operations stop`."""

from __future__ import annotations

from jobs_admin.api.views.operations import OperationView
from jobs_admin.cli.actor import By, person
from jobs_admin.cli.connection import AdminConnectionOptions
from jobs_admin.cli.operations.get import OperationId, show
from jobs_admin.cli.render.output import Output
from jobs_admin.cli.run import run


def stop(
    operation: OperationId, output: Output, reach: AdminConnectionOptions, by: By = None
) -> None:
    """Stop an operation. Jobs that it has changed stay changed; the others stay as they are."""
    run(_stop(reach, operation, output, person(by)))


async def _stop(
    reach: AdminConnectionOptions, operation_id: str, output: Output, by: str | None
) -> None:
    async with reach.admin(by=by) as admin:
        stopped: OperationView = await admin.stop_operation(operation_id)
    show(stopped, output)
