"""`trellis-jobs schedules delete`."""

from __future__ import annotations

from jobs_admin.cli.actor import By, Reason, actor_name
from jobs_admin.cli.confirm import Yes, confirm, require_terminal_or_yes
from jobs_admin.cli.connection import AdminConnectionOptions
from jobs_admin.cli.render.output import JsonOutput, print_json, print_text
from jobs_admin.cli.run import run
from jobs_admin.cli.schedules.names import ScheduleArgument, parse_schedule
from trellis_jobs.model.schedules.address import ScheduleAddress


def delete(
    schedule: ScheduleArgument,
    output: JsonOutput,
    options: AdminConnectionOptions,
    reason: Reason = None,
    by: By = None,
    yes: Yes = False,
) -> None:
    """Delete a schedule that was made at run time. Its jobs are not changed.

    A schedule that the code of its service declares is deleted by a deploy without it: pause it
    until then.
    """
    address = parse_schedule(schedule)
    require_terminal_or_yes(yes, f"delete schedule {address}")
    if not yes:
        confirm(f"Delete schedule {address}?")
    run(_delete(options, address, (actor_name(by), reason), output))


async def _delete(
    options: AdminConnectionOptions,
    address: ScheduleAddress,
    note: tuple[str | None, str | None],
    output: JsonOutput,
) -> None:
    by, reason = note
    async with options.admin(by=by) as admin:
        await admin.schedules.delete(address, reason=reason)
    if output.json:
        named = {"service": address.service, "type": address.job_type, "name": address.schedule}
        print_json({**named, "deleted": True})
    else:
        print_text(f"{address} is deleted")
