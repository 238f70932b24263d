"""`trellis-jobs operations stop`."""

from __future__ import annotations

from jobs_admin.api.views.operations import OperationView
from jobs_admin.cli.actor import By, Reason, actor_name
from jobs_admin.cli.connection import AdminConnectionOptions
from jobs_admin.cli.operations.get import OperationId, show
from jobs_admin.cli.render.output import Output
from jobs_admin.cli.run import run


def stop(
    operation: OperationId,
    output: Output,
    options: AdminConnectionOptions,
    reason: Reason = None,
    by: By = None,
) -> None:
    """Stop an operation. Jobs that it has already changed stay changed."""
    run(_stop(options, operation, (actor_name(by), reason), output))


async def _stop(
    options: AdminConnectionOptions,
    operation_id: str,
    note: tuple[str | None, str | None],
    output: Output,
) -> None:
    by, reason = note
    async with options.admin(by=by) as admin:
        stopped: OperationView = await admin.stop_operation(operation_id, reason=reason)
    show(stopped, output)
