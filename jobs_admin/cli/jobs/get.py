"""`trellis-jobs jobs get`."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Annotated

import typer

from jobs_admin.api.errors import NotFound
from jobs_admin.api.views.jobs import JobView
from jobs_admin.cli.connection import AdminConnectionOptions
from jobs_admin.cli.exit_codes import Exit, Missing, complain
from jobs_admin.cli.filters import moment
from jobs_admin.cli.job_names import JobArguments, named
from jobs_admin.cli.jobs.detail import Sheet
from jobs_admin.cli.reading.folded_job import view_of
from jobs_admin.cli.reading.job_reader import JobReader, reading
from jobs_admin.cli.reading.log_reading import recorded
from jobs_admin.cli.render.output import Output, console, print_json
from jobs_admin.cli.render.times import stamp
from jobs_admin.cli.run import run
from trellis_jobs.errors import JobNotFound, JobsError
from trellis_jobs.model.identity import JobAddress
from trellis_jobs.model.timeline import TimelineEntry, replay


def get_jobs(
    ids: JobArguments,
    output: Output,
    reach: AdminConnectionOptions,
    at: Annotated[
        str | None,
        typer.Option(
            help="As it was then, by the server's clock: 10m, 2h, 3d ago, or RFC 3339.",
            metavar="TIME",
        ),
    ] = None,
    errors: Annotated[
        bool, typer.Option("--errors", help="Every error, also of earlier runs, with tracebacks.")
    ] = False,
    secrets: Annotated[
        bool,
        typer.Option("--secrets", help="With what is secret in it, as it is now; a right apart."),
    ] = False,
) -> None:
    """All there is to know of a job, on one screen.

    Without an admin runtime it is read from the log itself. With --json, one document a job.
    """
    now = datetime.now(UTC)
    then = moment("--at", at, now)
    if then is not None and then > now:
        raise typer.BadParameter(f"{stamp(then)} is yet to come", param_hint="--at")
    if secrets and then is not None:
        raise typer.BadParameter("secrets are told as they are now", param_hint="--secrets")
    sheet = Sheet(
        output=output,
        now=then or now,
        is_past=then is not None,
        errors=errors,
        is_terminal=console().is_terminal,
    )
    run(_get(reach, [named(each) for each in ids], sheet, then, secrets=secrets))


async def _get(
    reach: AdminConnectionOptions,
    jobs: list[str | JobAddress],
    sheet: Sheet,
    then: datetime | None,
    *,
    secrets: bool,
) -> Exit:
    """Those that are there are shown, whichever of the others are not."""
    code, is_first = Exit.OK, True
    async with reading(reach) as reader:
        for job in jobs:
            try:
                found = await (reader.job(job) if then is None else _as_it_was(reader, job, then))
                found = await _with_secrets(reader, found) if secrets else found
            except (NotFound, JobNotFound, Missing) as error:
                code = complain(error)
                continue
            if sheet.output.json:
                print_json(found)
                continue
            explanation = await reader.explanation(found) if then is None else None
            if not is_first:
                console().print()
            console().print(sheet.draw(found, explanation))
            is_first = False
    return code


async def _as_it_was(reader: JobReader, job: str | JobAddress, then: datetime) -> JobView:
    history = recorded(await reader.entries(job))
    found = view_of(replay(each for each in history if each.stored_at <= then))
    if found is None:
        raise _not_yet(replay(history), job if isinstance(job, str) else job.job_id, then)
    return found


def _not_yet(told: Sequence[TimelineEntry], job_id: str, then: datetime) -> JobsError:
    begun = next((each.at for each in told if each.job is not None), None)
    if begun is None:
        return JobNotFound(job_id)
    return Missing(f"there was no job {job_id} at {stamp(then)}; it was created at {stamp(begun)}")


async def _with_secrets(reader: JobReader, job: JobView) -> JobView:
    told = await reader.secrets(JobAddress(job.service, job.type, job.id))
    whole = {"payload": told.payload} | ({} if told.result is None else {"result": told.result})
    return job.model_copy(update=whole)
