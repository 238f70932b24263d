"""`trellis-jobs schedules pause`."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Annotated

import typer

from jobs_admin.api.inputs import MAX_PAUSE
from jobs_admin.cli.actor import By, actor_name
from jobs_admin.cli.connection import AdminConnectionOptions
from jobs_admin.cli.render.output import Output, print_json, print_text
from jobs_admin.cli.run import run
from jobs_admin.cli.schedules.names import ScheduleArgument, parse_schedule
from jobs_admin.cli.schedules.words import pause_words
from jobs_admin.cli.time_options import duration, moment_ahead
from trellis_jobs.environment import utc_now
from trellis_jobs.model.schedules.address import ScheduleAddress


def pause(
    schedule: ScheduleArgument,
    output: Output,
    options: AdminConnectionOptions,
    reason: Annotated[str, typer.Option(help="Why. Shown by `schedules list` and `get`.")],
    lasting: Annotated[
        str | None,
        typer.Option(
            "--for", help="Resume automatically after this time: 10m, 2h.", metavar="DURATION"
        ),
    ] = None,
    until: Annotated[
        str | None,
        typer.Option(help="Resume automatically at this time: 14:30, or RFC 3339.", metavar="TIME"),
    ] = None,
    by: By = None,
) -> None:
    """Create no jobs for the ticks of a schedule. Jobs that exist are not changed.

    When the pause ends, the schedule's policy for missed ticks decides about the ticks of the
    pause.
    """
    if not reason.strip():
        raise typer.BadParameter("say why the schedule is paused", param_hint="--reason")
    end = _end(lasting, until, datetime.now(UTC))
    run(_pause(options, parse_schedule(schedule), (end, reason, actor_name(by)), output))


def _end(
    lasting: str | None, until: str | None, now: datetime
) -> tuple[datetime | None, timedelta | None]:
    """A time or a duration, by the server's clock. Neither: until the schedule is resumed."""
    if lasting is not None and until is not None:
        raise typer.BadParameter("give either --for or --until, not both", param_hint="--until")
    if lasting is None:
        return (None if until is None else moment_ahead("--until", until, now)), None
    length = duration("--for", lasting)
    if length > MAX_PAUSE:
        raise typer.BadParameter(
            f"{lasting!r} is longer than {MAX_PAUSE.days} days: without --for, the schedule is "
            "paused until it is resumed",
            param_hint="--for",
        )
    return None, length


async def _pause(
    options: AdminConnectionOptions,
    address: ScheduleAddress,
    given: tuple[tuple[datetime | None, timedelta | None], str, str | None],
    output: Output,
) -> None:
    (until, length), reason, by = given
    async with options.admin(by=by) as admin:
        changed = await admin.schedules.pause(address, reason=reason, until=until, duration=length)
    if output.json:
        print_json(changed)
        return
    paused = changed.schedule.paused
    words = "paused" if paused is None else pause_words(paused, output, utc_now())
    print_text(f"{address} is {words}")
