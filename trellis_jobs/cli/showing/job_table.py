"""Jobs as rows."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from rich.table import Table

from jobs_admin.views.jobs import JobView
from trellis_jobs.cli.showing.output import Output, one_line, table
from trellis_jobs.cli.showing.states import state_text


def job_table(jobs: Iterable[JobView], output: Output, now: datetime) -> Table:
    shown = table("id", "queue", "state", "tries", "created", "error", elastic="error")
    for job in jobs:
        shown.add_row(
            job.id,
            f"{job.service}/{job.type}",
            state_text(job.state),
            f"{job.tries}/{job.max_tries}",
            output.time(job.created_at, now),
            one_line(job.last_error),
        )
    return shown
