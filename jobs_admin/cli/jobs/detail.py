"""All details of a job on one screen."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

import orjson
from rich.console import Group, RenderableType
from rich.table import Table

from jobs_admin.api.schedule_words import created_by_schedule
from jobs_admin.api.views.jobs import ErrorView, ExplanationView, JobView, RunView
from jobs_admin.cli.render.counts import count
from jobs_admin.cli.render.output import Output, one_line
from jobs_admin.cli.render.progress import progress_text
from jobs_admin.cli.render.states import state_until
from jobs_admin.cli.render.text import Text
from jobs_admin.cli.render.times import NOW, ago, stamp
from trellis_jobs.model.durations import format_duration
from trellis_jobs.model.identity import JobAddress
from trellis_jobs.model.notes import Progress
from trellis_jobs.model.states import JobState

_ONE_LINE: Final = 60

Field = tuple[str, RenderableType]


@dataclass(frozen=True, slots=True, kw_only=True)
class JobDetail:
    """`now` is the time that ages are relative to; `is_past` is true for `--at`.

    With `errors`, every error is shown with its traceback.
    """

    output: Output
    now: datetime
    is_past: bool
    errors: bool
    is_terminal: bool

    def draw(self, job: JobView, explanation: ExplanationView | None) -> RenderableType:
        grid = Table.grid(padding=(0, 2, 0, 0))
        grid.add_column(style="dim", no_wrap=True)
        grid.add_column(overflow="fold")
        for name, value in self._fields(job, explanation):
            grid.add_row(name, value)
        return Group(self._heading(job), grid, *self._error_blocks(job))

    def _heading(self, job: JobView) -> Text:
        queue = f"  {job.service}/{job.type}  "
        state = state_until(job.state, job.next_attempt_at, self.output, self.now)
        return Text.assemble((job.id, "bold"), queue, state)

    def _fields(self, job: JobView, explanation: ExplanationView | None) -> Iterator[Field]:
        if self.is_past:
            yield "state at", f"{stamp(self.now)}; ages are relative to this time"
        yield from _why(job, explanation)
        if explanation is None:  # Otherwise it says so.
            yield from _schedule(job)
        yield "tries", f"{job.tries} of {job.max_tries}"
        if job.snoozes:
            yield "snoozes", f"{job.snoozes}, the last one because: {job.snooze_reason}"
        yield from _own_limits(job)
        yield from self._times(job)
        yield from _worker(job)
        yield from _key(job)
        if job.progress is not None:
            progress = Progress(**job.progress.model_dump())
            yield "progress", progress_text(progress, bar=self.is_terminal)
        yield from _content(job)
        yield from self._counts(job)
        yield "trace", f"{job.context.trace_id}, request {job.context.request_id}"

    def _times(self, job: JobView) -> Iterator[Field]:
        ran, is_delayed = _ran(job), job.state is JobState.SCHEDULED
        planned = None if job.schedule else job.run_at
        moments = (
            ("created", job.created_at, _created_by(job)),
            ("delayed until" if is_delayed else "planned for", planned, ""),
            ("retried" if job.earlier_runs else "released", _began_again_at(job), _by(job)),
            ("started", job.started_at, ""),
            ("ended", job.completed_at, f", after {ran}" if ran else ""),
            ("snoozed until" if job.snoozed_until else "next try", _next_try_at(job), ""),
            ("deadline", job.deadline, ""),
        )
        for name, at, more in moments:
            if at is not None:
                yield name, f"{self._moment(at)}{more}"

    def _moment(self, at: datetime) -> str:
        if self.output.absolute:
            return stamp(at)
        distance = ago(at, self.now)
        if distance == NOW:
            distance = "at that time" if self.is_past else "just now"
        return f"{distance} ({stamp(at)})"

    def _counts(self, job: JobView) -> Iterator[Field]:
        if job.errors and not self.errors:
            yield "errors", f"{count(len(job.errors))}; show them with --errors"
        if job.logs:
            yield "log lines", f"{count(len(job.logs))}; see `trellis-jobs jobs logs {job.id}`"
        for number, run in enumerate(job.earlier_runs, start=1):
            yield f"run {number}", self._earlier(run)

    def _earlier(self, run: RunView) -> str:
        last = run.errors[-1] if run.errors else None
        reason = run.reason or (f"{last.type}: {last.message}" if last else "no error")
        ended = self._moment(run.completed_at) if run.completed_at else "at an unknown time"
        return f"ended {ended}: {reason}"

    def _error_blocks(self, job: JobView) -> Iterator[RenderableType]:
        """Errors in their order, those of earlier runs first, with the number of the run."""
        if not self.errors:
            return
        for number, run in enumerate(job.earlier_runs, start=1):
            for error in run.errors:
                yield from self._error_block(error, f"run {number}, ")
        for error in job.errors:
            yield from self._error_block(error)

    def _error_block(self, error: ErrorView, run: str = "") -> Iterator[RenderableType]:
        yield Text()
        yield Text(f"{run}try {error.tries}, {self._moment(error.timestamp)}", "dim")
        yield _error(error)


def _why(job: JobView, explanation: ExplanationView | None) -> Iterator[Field]:
    if explanation is not None:
        yield "why", explanation.sentence
        yield "next", explanation.next
    elif job.snoozed_until is not None:
        yield "why", f"snoozed: {job.snooze_reason}"
    elif job.state is JobState.COMPLETED:
        return  # Its errors are those of earlier tries.
    elif job.reason is not None or job.last_error is not None:
        yield "why", " ".join(filter(None, (job.reason or job.last_error, _ended_by(job))))


def _schedule(job: JobView) -> Iterator[Field]:
    if job.schedule is not None:
        address = JobAddress(job.service, job.type, job.id)
        words = created_by_schedule(address, job.schedule, job.run_at)
        yield "created by", one_line(words)


def _worker(job: JobView) -> Iterator[Field]:
    """The worker that runs the job, or that started its last try."""
    version = f", version {job.app_version}" if job.app_version else ""
    if job.attempt is not None:
        yield "worker", f"{job.attempt.instance_id}{version}, delivery {job.attempt.delivery}"
    elif job.instance_id is not None:
        yield "last worker", f"{job.instance_id}{version}"


def _own_limits(job: JobView) -> Iterator[Field]:
    for name, limit in (("timeout", job.timeout_ms), ("visibility", job.visibility_ms)):
        if limit is not None:
            yield name, f"{format_duration(timedelta(milliseconds=limit))}, set for this job"


def _ended_by(job: JobView) -> str:
    return f"(by {job.by})" if job.by else ""


def _created_by(job: JobView) -> str:
    by = f" by {job.created_by}" if job.created_by else ""
    return f"{by}: {job.created_reason}" if job.created_reason else by


def _by(job: JobView) -> str:
    return f" by {job.begun_by}" if job.begun_by else ""


def _ran(job: JobView) -> str | None:
    if job.started_at is None or job.completed_at is None:
        return None
    return format_duration(max(timedelta(), job.completed_at - job.started_at))


def _key(job: JobView) -> Iterator[Field]:
    held = job.concurrency
    if held is None:
        return
    holds = f", held by {held.instance_id}" if job.state is JobState.ACTIVE else ""
    yield "key", f"{held.key}{holds}"


def _content(job: JobView) -> Iterator[Field]:
    yield "payload", _json(job.payload)
    if job.result is not None:
        yield "result", _json(job.result)
    if job.omitted:
        names = ", ".join(job.omitted)
        yield "omitted", f"{names}: too large to send; see `trellis-jobs jobs events {job.id}`"


def _json(value: Any) -> Text:
    """On one line if it is short."""
    text = orjson.dumps(value).decode()
    if len(text) > _ONE_LINE:
        text = orjson.dumps(value, option=orjson.OPT_INDENT_2).decode()
    return Text(text)


def _error(error: ErrorView) -> Text:
    message = Text(f"{error.type}: {error.message}", "red")
    return message if error.traceback is None else Text(error.traceback.rstrip())


def _next_try_at(job: JobView) -> datetime | None:
    return None if job.state is JobState.SCHEDULED else job.next_attempt_at


def _began_again_at(job: JobView) -> datetime | None:
    """When an operator retried the job, or when it was released after its delay."""
    if job.state is JobState.SCHEDULED or job.began_at == job.created_at:
        return None
    return job.began_at
