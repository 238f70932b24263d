"""What the commands say about pauses and runs of schedules."""

from __future__ import annotations

from datetime import datetime
from typing import Final

from jobs_admin.api.views.schedules import SchedulePauseView, ScheduleRunView
from jobs_admin.cli.render.output import Output
from jobs_admin.cli.render.states import state_name
from trellis_jobs.model.schedules.record import SkipReason

_SKIPPED: Final = {
    SkipReason.MISSED: "no worker fired it in time",
    SkipReason.PAUSED: "the schedule was paused",
    SkipReason.OVERLAP: "the previous job had not ended",
    SkipReason.CHANGED: "the schedule got another timing",
}


def pause_words(pause: SchedulePauseView, output: Output, now: datetime) -> str:
    """`paused by ann until 14:30:00: the bank is away`."""
    ends = "until it is resumed"
    if pause.until is not None:
        ends = f"until {output.moment(pause.until, now)}"
    by = f" by {pause.by}" if pause.by else ""
    reason = f": {pause.reason}" if pause.reason else ""
    return f"paused{by} {ends}{reason}"


def run_words(run: ScheduleRunView, output: Output, now: datetime) -> str:
    """When, and if there is no job, why."""
    at = output.time(run.tick, now)
    if run.skipped is not None:
        return f"{at}, skipped"
    if run.refused is not None:
        return f"{at}, refused"
    return f"{at}, waits for a worker" if run.waits else at


def outcome_words(run: ScheduleRunView) -> str:
    """What became of a tick."""
    if run.skipped is not None:
        ticks = "skipped" if run.count == 1 else f"{run.count:,} ticks skipped"
        return f"{ticks}: {_SKIPPED[run.skipped]}"
    if run.refused is not None:
        return f"not created: {run.refused}"
    if run.waits:
        return "not created yet"
    return "" if run.state is None else state_name(run.state)
