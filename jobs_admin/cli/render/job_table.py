"""Jobs as rows."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Final

from rich.table import Table

from jobs_admin.api.views.jobs import JobView
from jobs_admin.cli.render.columns import Columns, Row, fitting
from jobs_admin.cli.render.output import Output, console, one_line
from jobs_admin.cli.render.states import state_text

COLUMNS: Final = Columns(
    names=("id", "queue", "state", "tries", "created", "changed", "key", "error"),
    elastic="error",
    shortened="queue",
    gives_way=("key", "changed", "tries", "created"),
    cut={"key": 20},
)


def job_table(jobs: Iterable[JobView], output: Output, now: datetime) -> Table:
    """The wider the terminal, the more is told of each; ids are always whole."""
    return fitting(COLUMNS, [_row(job, output, now) for job in jobs], console().width)


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
