"""The colour of every state."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from jobs_admin.cli.render.text import Text
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


def state_text(state: JobState) -> Text:
    return Text(state.value, STYLES[state])
