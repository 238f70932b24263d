"""`trellis-jobs dlq show`: one dead job with all of its errors, and the commands for it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

import orjson
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table

from jobs_admin.api.views.jobs import ErrorView, ExplanationView, JobView
from jobs_admin.cli.connection import AdminConnectionOptions
from jobs_admin.cli.job_names import JobArgument, parse_job
from jobs_admin.cli.job_reader.reader import open_reader
from jobs_admin.cli.render.output import Output, console, print_json
from jobs_admin.cli.render.states import state_text
from jobs_admin.cli.render.text import Text
from jobs_admin.cli.run import run
from trellis_jobs.environment import utc_now
from trellis_jobs.model.identity import JobAddress
from trellis_jobs.model.states import JobState


def show(job: JobArgument, output: Output, options: AdminConnectionOptions) -> None:
    """Show one dead job: its payload, its errors with tracebacks, and what to do about it.

    Without an admin runtime, the job is read from the log.
    """
    run(_show(options, parse_job(job), output))


async def _show(options: AdminConnectionOptions, name: str | JobAddress, output: Output) -> None:
    async with open_reader(options) as reader:
        job = await reader.job(name)
        explained = await reader.explanation(job)
    if output.json:
        print_json({"job": job} | ({"explanation": explained} if explained else {}))
        return
    for part in render_dead_job(job, explained, output, utc_now()):
        console().print(part)


def render_dead_job(
    job: JobView, explained: ExplanationView | None, output: Output, now: datetime
) -> Iterator[RenderableType]:
    yield _facts(job, output, now)
    if explained is not None:
        yield Text()
        yield Text(explained.sentence)
    for error in job.errors:
        yield Text()
        yield _error(error, output, now)
    yield Text()
    yield from _what_to_do(job, explained)


def _facts(job: JobView, output: Output, now: datetime) -> Table:
    facts = Table.grid(padding=(0, 2, 0, 0))
    facts.add_row("job", job.id)
    facts.add_row("queue", f"{job.service}/{job.type}")
    facts.add_row("state", state_text(job.state))
    facts.add_row("tries", f"{job.tries}/{job.max_tries}")
    facts.add_row("created", output.time(job.created_at, now))
    if job.completed_at is not None:
        facts.add_row(
            "died" if job.state is JobState.DEAD else "ended", output.time(job.completed_at, now)
        )
    if job.instance_id is not None:
        facts.add_row("last worker", job.instance_id)
    if job.app_version is not None:
        facts.add_row("version", Text(job.app_version))
    if job.concurrency is not None:
        facts.add_row("key", Text(job.concurrency.key))
    facts.add_row("payload", Text(orjson.dumps(job.payload).decode()))
    return facts


def _error(error: ErrorView, output: Output, now: datetime) -> RenderableType:
    when = output.time(error.timestamp, now)
    head = Text.assemble(
        (f"try {error.tries}", "bold"),
        (f"  {when}  ", "dim"),
        (f"{error.type}: ", "red"),
        error.message,
    )
    if error.traceback is None:
        return head
    return Group(head, Padding(Text(error.traceback.rstrip(), "dim"), (0, 0, 0, 2), expand=False))


def _what_to_do(job: JobView, explained: ExplanationView | None) -> Iterator[RenderableType]:
    if job.state is not JobState.DEAD:
        following = f" Next: {explained.next}." if explained else ""
        yield Text(f"This job is not dead.{following}", "yellow")
        return
    yield Text(f"trellis-jobs dlq replay {job.id}    run it again")
    yield Text(f"trellis-jobs dlq dismiss {job.id}   do not run it again")
