"""A table of jobs."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Final

from rich.table import Table

from jobs_admin.api.views.jobs import JobView
from jobs_admin.cli.render.columns import Columns, Row, fit_table
from jobs_admin.cli.render.output import Output, console, one_line
from jobs_admin.cli.render.states import state_text

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
        "state": state_text(job.state),
        "tries": f"{job.tries}/{job.max_tries}",
        "created": output.time(job.created_at, now),
        "changed": output.time(job.updated_at, now),
        "key": one_line(job.concurrency.key if job.concurrency else None),
        "error": one_line(job.last_error),
    }
