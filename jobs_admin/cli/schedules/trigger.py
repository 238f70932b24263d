"""`trellis-jobs schedules trigger`."""

from __future__ import annotations

from jobs_admin.cli.actor import By, Reason, actor_name
from jobs_admin.cli.connection import AdminConnectionOptions
from jobs_admin.cli.render.output import JsonOutput, print_json, print_stderr, print_text
from jobs_admin.cli.run import run
from jobs_admin.cli.schedules.names import ScheduleArgument, parse_schedule
from trellis_jobs.model.schedules.address import ScheduleAddress


def trigger(
    schedule: ScheduleArgument,
    output: JsonOutput,
    options: AdminConnectionOptions,
    reason: Reason = None,
    by: By = None,
) -> None:
    """Create a job of a schedule now, whatever its timing says, also while it is paused.

    The command prints the id of the job, and a worker of the service creates it, usually at once.
    If no worker runs, it is created when one starts.
    """
    run(_trigger(options, parse_schedule(schedule), (actor_name(by), reason), output))


async def _trigger(
    options: AdminConnectionOptions,
    address: ScheduleAddress,
    note: tuple[str | None, str | None],
    output: JsonOutput,
) -> None:
    by, reason = note
    async with options.admin(by=by) as admin:
        triggered = await admin.schedules.trigger(address, reason=reason)
    if output.json:
        print_json(triggered)
    else:
        print_text(f"{address} is triggered: a worker creates job {triggered.job_id}")
    if triggered.workers == 0:
        print_stderr(
            f"No worker of {address.service} is running: the job is created when one starts."
        )
