"""`trellis-jobs schedules resume`."""

from __future__ import annotations

from jobs_admin.api.views.schedules import ChangedSchedule, ScheduleOutcome
from jobs_admin.cli.actor import By, Reason, actor_name
from jobs_admin.cli.connection import AdminConnectionOptions
from jobs_admin.cli.render.output import Output, print_json, print_text
from jobs_admin.cli.run import run
from jobs_admin.cli.schedules.names import ScheduleArgument, parse_schedule
from trellis_jobs.environment import utc_now
from trellis_jobs.model.schedules.address import ScheduleAddress


def resume(
    schedule: ScheduleArgument,
    output: Output,
    options: AdminConnectionOptions,
    reason: Reason = None,
    by: By = None,
) -> None:
    """End the pause of a schedule. Does nothing if it is not paused.

    The schedule's policy for missed ticks decides about the ticks of the pause.
    """
    run(_resume(options, parse_schedule(schedule), (actor_name(by), reason), output))


async def _resume(
    options: AdminConnectionOptions,
    address: ScheduleAddress,
    note: tuple[str | None, str | None],
    output: Output,
) -> None:
    by, reason = note
    async with options.admin(by=by) as admin:
        changed = await admin.schedules.resume(address, reason=reason)
    if output.json:
        print_json(changed)
    else:
        print_text(_words(changed, output))


def _words(changed: ChangedSchedule, output: Output) -> str:
    schedule = changed.schedule
    if changed.outcome is ScheduleOutcome.UNCHANGED:
        return f"{schedule.address} was not paused"
    parts = [f"{schedule.address} is resumed"]
    if schedule.due_since is not None:
        parts.append(f"missed ticks get {schedule.on_missed_ticks}")
    if schedule.next is not None:
        parts.append(f"next tick {output.time(schedule.next.at, utc_now())}")
    return "; ".join(parts)
