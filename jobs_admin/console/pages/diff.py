"""Two runs of a job, or of two jobs, side by side."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

from jobs_admin.api.errors import Invalid, NotFound
from jobs_admin.console.charts.gantt import Gantt, gantt, stretch_of
from jobs_admin.console.job.attempts import attempts_of, with_lines
from jobs_admin.console.job.comparison import RunSide, compare
from jobs_admin.console.job.job_log import read_log, replay_log, run_number
from trellis_jobs.errors import InvalidToken
from trellis_jobs.model.identity import JobAddress, check_token
from trellis_jobs.model.timeline import Phase

if TYPE_CHECKING:
    from datetime import datetime

    from starlette.responses import Response

    from jobs_admin.console.console_request import ConsoleRequest
    from jobs_admin.console.job.job_log import JobLog
    from jobs_admin.console.job.job_reads import JobReads
    from trellis_jobs.model.job import Run

_MAX_DIGITS = 6


@dataclass(frozen=True, slots=True)
class NamedRun:
    """`service/type/id@run`, or only an id; without a run, the newest."""

    job: str | JobAddress
    run: int | None


async def show(request: ConsoleRequest) -> Response:
    a, b = request.query.get("a", "").strip(), request.query.get("b", "").strip()
    if not a or not b:
        return request.render("diff.html", topics="", a=a, b=b, comparison=None)
    now = request.console.now()
    left, right = await asyncio.gather(
        _side(request.job_reads, named_run(a), now), _side(request.job_reads, named_run(b), now)
    )
    charts = _charts(left, right, now)
    topics = " ".join(
        f"job:{side.job.service}/{side.job.job_type}/{side.job.job_id}" for side in (left, right)
    )
    return request.render(
        "diff.html",
        topics=topics,
        a=a,
        b=b,
        sides=tuple(zip((left, right), charts, strict=True)),
        comparison=compare(left, right, now),
    )


def named_run(text: str) -> NamedRun:
    """Raises Invalid."""
    name, _, run = text.partition("@")
    if run and not (run.isascii() and run.isdigit() and len(run) <= _MAX_DIGITS):
        raise Invalid(f"{run!r} is not the number of a run")
    try:
        match name.split("/"):
            case [service, job_type, job_id]:
                job: str | JobAddress = JobAddress(service, job_type, job_id)
            case _:
                job = check_token("job id", name)
    except InvalidToken as error:
        raise Invalid(f"{error}; a job is its id, or service/type/id") from None
    return NamedRun(job, int(run) if run else None)


async def _side(reads: JobReads, named: NamedRun, now: datetime) -> RunSide:
    view = await reads.get(named.job)
    address = JobAddress(view.service, view.type, view.id)
    log = replay_log(await read_log(reads, address), now)
    attempts = attempts_of(log.history)
    if not log.part.is_whole:
        with_lines(attempts, view.logs)
    number = named.run or run_number(log.job)
    run, state = _run(log, number, address)
    return RunSide(
        job=address,
        number=number,
        state=state,
        run=run,
        spans=tuple(
            each for each in log.spans if each.run == number and each.span.phase is not Phase.OVER
        ),
        attempts=tuple(each for each in attempts if each.run == number),
    )


def _run(log: JobLog, number: int, address: JobAddress) -> tuple[Run, str]:
    """The run as it was at its end, or is now, with the job's state at that time."""
    of_run = [entry.job for entry in log.history if entry.job and run_number(entry.job) == number]
    if not of_run:
        raise NotFound(f"job {address.job_id} has no run {number}")
    return of_run[-1].run, of_run[-1].state.value


def _charts(left: RunSide, right: RunSide, now: datetime) -> tuple[Gantt, Gantt]:
    """Both on one scale, so that the same time has the same width."""
    stretch = stretch_of(left.spans, right.spans, now=now)
    return gantt(left.spans, now, stretch=stretch), gantt(right.spans, now, stretch=stretch)
