"""A table of jobs."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Final

from rich.table import Table

from jobs_admin.api.views.jobs import JobView
from jobs_admin.cli.render.columns import Columns, Row, fit_table
from jobs_admin.cli.render.output import Output, console, one_line
from jobs_admin.cli.render.states import state_until
from jobs_admin.cli.render.text import Text

COLUMNS: Final = Columns(
    names=("id", "queue", "state", "tries", "created", "changed", "key", "error"),
    flexible="error",
    truncated="queue",
    dropped_first=("key", "changed", "tries", "created"),
    max_widths={"key": 20},
)


def job_table(jobs: Iterable[JobView], output: Output, now: datetime) -> Table:
    """A wider terminal shows more columns; ids are never truncated."""
    return fit_table(COLUMNS, [_row(job, output, now) for job in jobs], console().width)


def _row(job: JobView, output: Output, now: datetime) -> Row:
    return {
        "id": job.id,
        "queue": f"{job.service}/{job.type}",
        "state": Text(*state_until(job.state, job.next_attempt_at, output, now)),
        "tries": f"{job.tries}/{job.max_tries}",
        "created": output.time(job.created_at, now),
        "changed": output.time(job.updated_at, now),
        "key": one_line(job.concurrency.key if job.concurrency else None),
        "error": one_line(_snooze_words(job, output, now) or job.last_error),
    }


def _snooze_words(job: JobView, output: Output, now: datetime) -> str | None:
    if job.snoozed_until is None:
        return None
    return f"snoozed, due {output.time(job.snoozed_until, now)}: {job.snooze_reason}"
