"""`trellis-jobs schedules put`."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Final
from zoneinfo import available_timezones

import typer

from jobs_admin.api.schedule_client import ScheduleArguments
from jobs_admin.api.views.schedules import ChangedSchedule, ScheduleOutcome
from jobs_admin.cli.actor import By, Reason, actor_name
from jobs_admin.cli.connection import AdminConnectionOptions
from jobs_admin.cli.exit_codes import UsageError
from jobs_admin.cli.payload import read_payload
from jobs_admin.cli.render.output import Output, print_json, print_stderr, print_text
from jobs_admin.cli.run import run
from jobs_admin.cli.schedules.names import ScheduleArgument, parse_schedule
from jobs_admin.cli.time_options import duration, moment_ahead
from trellis_jobs.environment import utc_now
from trellis_jobs.model.json_values import Json
from trellis_jobs.model.schedules.address import ScheduleAddress
from trellis_jobs.model.schedules.definition import (
    DEFAULT_MAX_CATCH_UP,
    MAX_MAX_CATCH_UP,
    CatchUp,
    Overlap,
)

_PANEL: Final = "Schedule"


def _zones() -> list[str]:
    return sorted(available_timezones())


def _time(what: str) -> typer.models.OptionInfo:
    option: typer.models.OptionInfo = typer.Option(
        help=f"{what}: RFC 3339, or a time from now such as 3d.",
        metavar="TIME",
        rich_help_panel=_PANEL,
    )
    return option


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleOptions:
    cron: Annotated[
        str | None,
        typer.Option(
            help="A cron expression of 5 fields, or 6 with seconds first, or @hourly, @daily, …",
            metavar="EXPRESSION",
            rich_help_panel=_PANEL,
        ),
    ] = None
    tz: Annotated[
        str | None,
        typer.Option(
            help="The time zone of --cron, such as Europe/Berlin. Default: UTC.",
            metavar="ZONE",
            autocompletion=_zones,
            rich_help_panel=_PANEL,
        ),
    ] = None
    every: Annotated[
        str | None,
        typer.Option(
            help="Instead of --cron, an interval: 30s, 5m, 1h.",
            metavar="DURATION",
            rich_help_panel=_PANEL,
        ),
    ] = None
    jitter: Annotated[
        str | None,
        typer.Option(
            help="Delay each job by a random time of at most this.",
            metavar="DURATION",
            rich_help_panel=_PANEL,
        ),
    ] = None
    start: Annotated[str | None, _time("No ticks before this time")] = None
    end: Annotated[str | None, _time("No ticks after this time")] = None
    catch_up: Annotated[
        CatchUp,
        typer.Option(
            help="Jobs for ticks that were missed: none, one for the newest, or all.",
            rich_help_panel=_PANEL,
        ),
    ] = CatchUp.ONCE
    max_catch_up: Annotated[
        int,
        typer.Option(
            help="Maximum number of jobs of --catch-up all.",
            min=1,
            max=MAX_MAX_CATCH_UP,
            rich_help_panel=_PANEL,
        ),
    ] = DEFAULT_MAX_CATCH_UP
    overlap: Annotated[
        Overlap,
        typer.Option(
            help="If the previous job has not ended: create the next one too, skip the tick, "
            "replace a job that does not run, or cancel it even if it runs.",
            rich_help_panel=_PANEL,
        ),
    ] = Overlap.ALLOW

    def arguments(self, now: datetime) -> ScheduleArguments:
        if (self.cron is None) == (self.every is None):
            raise UsageError("give either --cron or --every")
        if self.tz is not None and self.cron is None:
            raise UsageError("--tz needs --cron: intervals have no time zone")
        return {
            "cron": self.cron,
            "time_zone": self.tz,
            "every": None if self.every is None else duration("--every", self.every),
            "jitter": None if self.jitter is None else duration("--jitter", self.jitter),
            "start": None if self.start is None else moment_ahead("--start", self.start, now),
            "end": None if self.end is None else moment_ahead("--end", self.end, now),
            "catch_up": self.catch_up,
            "max_catch_up": self.max_catch_up,
            "overlap": self.overlap,
        }


def put(
    schedule: ScheduleArgument,
    payload: Annotated[
        str,
        typer.Argument(
            metavar="JSON", help="The payload of each job; @FILE reads a file, - reads stdin."
        ),
    ],
    output: Output,
    options: AdminConnectionOptions,
    given: ScheduleOptions,
    reason: Reason = None,
    by: By = None,
) -> None:
    """Make a schedule, or change it. The same again changes nothing.

    The payload is checked against the contract of the queue, which its workers publish. Schedules
    that the code of the service declares cannot be changed in this way.
    """
    address, arguments = parse_schedule(schedule), given.arguments(datetime.now(UTC))
    note = (actor_name(by), reason)
    run(_put(options, address, (read_payload(payload), arguments, note), output))


async def _put(
    options: AdminConnectionOptions,
    address: ScheduleAddress,
    given: tuple[Json, ScheduleArguments, tuple[str | None, str | None]],
    output: Output,
) -> None:
    payload, arguments, (by, reason) = given
    async with options.admin(by=by) as admin:
        changed = await admin.schedules.put(address, payload, reason=reason, **arguments)
    if changed.payload_checked is False:
        queue = f"{address.service}/{address.job_type}"
        print_stderr(f"The payload is not validated: the contract of {queue} has no schema.")
    if output.json:
        print_json(changed)
    else:
        print_text(_words(changed, output))


def _words(changed: ChangedSchedule, output: Output) -> str:
    schedule = changed.schedule
    made = "is as it was" if changed.outcome is ScheduleOutcome.UNCHANGED else changed.outcome.value
    following = "no ticks"
    if schedule.next is not None:
        following = f"next tick {output.time(schedule.next.at, utc_now())}"
    elif schedule.paused is not None:
        following = "it is paused"
    return f"{schedule.address} {made}: {schedule.description}; {following}"
