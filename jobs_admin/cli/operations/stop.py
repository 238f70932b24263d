"""`trellis-jobs operations stop`."""

from __future__ import annotations

from jobs_admin.api.views.operations import OperationView
from jobs_admin.cli.actor import By, actor_name
from jobs_admin.cli.connection import AdminConnectionOptions
from jobs_admin.cli.operations.get import OperationId, show
from jobs_admin.cli.render.output import Output
from jobs_admin.cli.run import run


def stop(
    operation: OperationId, output: Output, options: AdminConnectionOptions, by: By = None
) -> None:
    """Stop an operation. Jobs that it has already changed stay changed."""
    run(_stop(options, operation, output, actor_name(by)))


async def _stop(
    options: AdminConnectionOptions, operation_id: str, output: Output, by: str | None
) -> None:
    async with options.admin(by=by) as admin:
        stopped: OperationView = await admin.stop_operation(operation_id)
    show(stopped, output)
