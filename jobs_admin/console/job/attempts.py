"""The attempts of a job: who ran it, for how long, what came of it, and what it said."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from jobs_admin.console.job.job_log import run_number
from jobs_admin.explain.event_words import event_name
from jobs_admin.explain.phase_words import INTERRUPTION_WORDS
from trellis_jobs.model import events as e
from trellis_jobs.model.reducer import NOTES
from trellis_jobs.model.timeline import INTERRUPTIONS

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime, timedelta

    from jobs_admin.api.views.jobs import LogLineView
    from trellis_jobs.model.job_errors import JobError
    from trellis_jobs.model.notes import LogLine, Progress
    from trellis_jobs.model.timeline import TimelineEntry


@dataclass(slots=True, kw_only=True)
class JobAttempt:
    """One attempt. `number` counts those of its run; a try that is given back is not a new one.

    `begin` and `end` are by the server's clock, `started_at` is by the worker's, like the times of
    log lines. `end` is None while it runs. `run_seq` identifies the run.
    """

    run: int
    run_seq: int
    number: int
    tries: int
    sequence: int
    begin: datetime
    started_at: datetime
    worker: str | None
    app_version: str | None
    end: datetime | None = None
    outcome: str = "running"
    is_failure: bool = False
    error: JobError | None = None
    progress: Progress | None = None
    lines: list[LogLine | LogLineView] = field(default_factory=list)

    def length(self, now: datetime) -> timedelta:
        return max(self.begin - self.begin, (self.end or now) - self.begin)


def attempts_of(history: Iterable[TimelineEntry]) -> list[JobAttempt]:
    """All attempts in their order, from the events that count."""
    attempts: list[JobAttempt] = []
    for entry in history:
        if entry.ignored is not None or entry.event is None:
            continue
        newest = attempts[-1] if attempts else None
        running = newest if newest is not None and newest.end is None else None
        if isinstance(entry.event, e.Started):
            if running is not None:
                _end(running, entry, "given up: it was started again")
            attempts.append(_begin(entry, entry.event, newest))
        elif running is not None:
            _continue(running, entry, entry.event)
    return attempts


def with_lines(attempts: Sequence[JobAttempt], lines: Iterable[LogLineView]) -> None:
    """Give each attempt the log lines that were written while it ran, by its worker's clock."""
    for line in lines:
        begun = [
            attempt
            for attempt in attempts
            if attempt.run_seq == line.run_seq and attempt.started_at <= line.timestamp
        ]
        if begun:
            begun[-1].lines.append(line)


def _begin(entry: TimelineEntry, event: e.Started, before: JobAttempt | None) -> JobAttempt:
    run = run_number(entry.job)
    attempt = JobAttempt(
        run=run,
        run_seq=entry.job.status.run if entry.job else 0,
        number=before.number + 1 if before is not None and before.run == run else 1,
        tries=event.tries,
        sequence=entry.record.sequence,
        begin=entry.at,
        started_at=event.at,
        worker=event.attempt.instance if event.attempt else None,
        app_version=event.app_version,
    )
    _note(attempt, event)
    return attempt


def _continue(attempt: JobAttempt, entry: TimelineEntry, event: e.Event) -> None:
    if isinstance(event, e.AttemptEvent):
        _note(attempt, event)
    if event.kind in NOTES:
        return
    error = _error_of(event)
    if error is not None and error.type in INTERRUPTIONS:
        _end(attempt, entry, INTERRUPTION_WORDS[error.type])
    else:
        _end(attempt, entry, event_name(event))
    attempt.is_failure = error is not None and not event.is_snooze
    attempt.error = error


def _end(attempt: JobAttempt, entry: TimelineEntry, outcome: str) -> None:
    attempt.end, attempt.outcome = entry.at, outcome


def _note(attempt: JobAttempt, event: e.AttemptEvent) -> None:
    attempt.progress = event.notes.progress or attempt.progress
    attempt.lines.extend(event.notes.lines)


def _error_of(event: e.Event) -> JobError | None:
    match event:
        case e.RetryScheduled(error=error) | e.Failed(error=error) | e.Dead(error=error):
            return error
        case e.Stale(error=error):
            return error
        case _:
            return None
