"""The name and the colour of every state."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Final

from jobs_admin.cli.render.output import Output
from jobs_admin.cli.render.text import Text
from jobs_admin.cli.render.times import moment, stamp
from trellis_jobs.model.states import OVER, JobState

# Jobs that were ended before their handler had a result are magenta, unless listed here.
STYLES: Final[Mapping[JobState, str]] = dict.fromkeys(OVER, "magenta") | {
    JobState.SCHEDULED: "blue",
    JobState.PENDING: "white",
    JobState.ACTIVE: "cyan",
    JobState.RETRY: "yellow",
    JobState.COMPLETED: "green",
    JobState.FAILED: "red",
    JobState.DEAD: "bold red",
    JobState.SKIPPED: "dim",
    JobState.DISMISSED: "dim",
}


# A delayed job is released within a second of its time, unless something is wrong.
_OVERDUE_AFTER: Final = timedelta(seconds=30)


def state_name(state: JobState) -> str:
    """As people read it; JSON and options have the value."""
    return "delayed" if state is JobState.SCHEDULED else state.value


def state_text(state: JobState) -> Text:
    return Text(state_name(state), STYLES[state])


def state_until(
    state: JobState, until: datetime | None, output: Output, now: datetime
) -> tuple[str, str]:
    """The state and its style; of a delayed job, also until when. `until` is its next attempt."""
    if state is not JobState.SCHEDULED or until is None:
        return state_name(state), STYLES[state]
    at = stamp(until) if output.absolute else moment(until, now)
    if now - until > _OVERDUE_AFTER:
        return f"overdue since {at}", "red"
    return f"delayed until {at}", STYLES[state]
