"""`trellis-jobs jobs get`."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from datetime import UTC, datetime
from typing import Annotated

import typer

from jobs_admin.api.errors import NotFound
from jobs_admin.api.views.jobs import JobView
from jobs_admin.cli.connection import AdminConnectionOptions
from jobs_admin.cli.exit_codes import Exit, Missing, report_error
from jobs_admin.cli.filters import moment
from jobs_admin.cli.job_names import OptionalJobs
from jobs_admin.cli.job_reader.bundle_reader import (
    BundleOption,
    load_bundle,
    named_jobs,
    open_source,
)
from jobs_admin.cli.job_reader.reader import JobSource
from jobs_admin.cli.jobs.detail import JobDetail
from jobs_admin.cli.render.output import Output, console, print_json
from jobs_admin.cli.render.times import stamp
from jobs_admin.cli.run import run
from jobs_admin.explain.job_view import view_of
from jobs_admin.explain.log_records import recorded
from trellis_jobs.errors import JobNotFound, JobsError
from trellis_jobs.model.identity import JobAddress
from trellis_jobs.model.timeline import TimelineEntry, replay


def get_jobs(
    output: Output,
    options: AdminConnectionOptions,
    ids: OptionalJobs = None,
    bundle: BundleOption = None,
    at: Annotated[
        str | None,
        typer.Option(
            help="Show the job as it was at this time, by the server's clock: 10m, 2h, 3d ago, or "
            "RFC 3339.",
            metavar="TIME",
        ),
    ] = None,
    errors: Annotated[
        bool,
        typer.Option(
            "--errors", help="Show every error with its traceback, also those of earlier runs."
        ),
    ] = False,
    secrets: Annotated[
        bool,
        typer.Option(
            "--secrets", help="Show secret fields too; this needs the permission `secrets`."
        ),
    ] = False,
) -> None:
    """Show all details of one or more jobs.

    Without an admin runtime, the jobs are read from the log. With --bundle, the job is shown as it
    was when it was exported. With --json, one document per job.
    """
    exported = None if bundle is None else load_bundle(bundle)
    now = datetime.now(UTC) if exported is None else exported.exported_at
    then = moment("--at", at, now)
    if then is not None and then > now:
        raise typer.BadParameter(f"{stamp(then)} is in the future", param_hint="--at")
    if secrets and then is not None:
        raise typer.BadParameter("it cannot be combined with --at", param_hint="--secrets")
    detail = JobDetail(
        output=output,
        now=then or now,
        is_past=then is not None or exported is not None,
        errors=errors,
        is_terminal=console().is_terminal,
    )
    jobs, source = named_jobs(ids or [], exported), open_source(options, exported)
    run(_get(source, jobs, detail, then, secrets=secrets))


async def _get(
    source: AbstractAsyncContextManager[JobSource],
    jobs: list[str | JobAddress],
    detail: JobDetail,
    then: datetime | None,
    *,
    secrets: bool,
) -> Exit:
    """Jobs that exist are shown even if others do not exist."""
    code, is_first = Exit.OK, True
    async with source as reader:
        for job in jobs:
            try:
                found = await (reader.job(job) if then is None else _as_it_was(reader, job, then))
                found = await _with_secrets(reader, found) if secrets else found
            except (NotFound, JobNotFound, Missing) as error:
                code = report_error(error)
                continue
            if detail.output.json:
                print_json(found)
                continue
            explanation = await reader.explanation(found) if then is None else None
            if not is_first:
                console().print()
            console().print(detail.draw(found, explanation))
            is_first = False
    return code


async def _as_it_was(reader: JobSource, job: str | JobAddress, then: datetime) -> JobView:
    history = recorded(await reader.entries(job))
    found = view_of(replay(each for each in history if each.stored_at <= then))
    if found is None:
        raise _not_yet(replay(history), job if isinstance(job, str) else job.job_id, then)
    return found


def _not_yet(history: Sequence[TimelineEntry], job_id: str, then: datetime) -> JobsError:
    created_at = next((each.at for each in history if each.job is not None), None)
    if created_at is None:
        return JobNotFound(job_id)
    return Missing(
        f"job {job_id} did not exist at {stamp(then)}; it was created at {stamp(created_at)}"
    )


async def _with_secrets(reader: JobSource, job: JobView) -> JobView:
    secrets = await reader.secrets(JobAddress(job.service, job.type, job.id))
    result = {} if secrets.result is None else {"result": secrets.result}
    return job.model_copy(update={"payload": secrets.payload} | result)
