"""The colour of every state."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from jobs_admin.cli.render.text import Text
from trellis_jobs.model.states import JobState

STYLES: Final[Mapping[JobState, str]] = {
    JobState.PENDING: "white",
    JobState.ACTIVE: "cyan",
    JobState.RETRY: "yellow",
    JobState.COMPLETED: "green",
    JobState.FAILED: "red",
    JobState.DEAD: "bold red",
    JobState.CANCELLED: "magenta",
    JobState.EXPIRED: "magenta",
    JobState.STALE: "magenta",
    JobState.SKIPPED: "dim",
    JobState.DISMISSED: "dim",
}


def state_text(state: JobState) -> Text:
    return Text(state.value, STYLES[state])
