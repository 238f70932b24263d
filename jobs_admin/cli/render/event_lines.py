"""One event in one line, in colour where there is colour."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from jobs_admin.cli.render.states import STYLES
from jobs_admin.cli.render.text import Text
from jobs_admin.cli.render.times import clock
from trellis_jobs.model import events as e
from trellis_jobs.model.durations import format_duration
from trellis_jobs.model.redaction import redacted

if TYPE_CHECKING:
    from trellis_jobs.model.events import Event
    from trellis_jobs.model.job import Job
    from trellis_jobs.model.notes import Notes, Progress

# The random end of a ULID: its beginning is the time, which all neighbours share.
_ID_SHOWN: Final = 8
_QUEUE_WIDTH: Final = 16
_KIND_WIDTH: Final = 10


def event_line(event: Event, job: Job, *, queue: str | None = None, short_id: bool = False) -> Text:
    """`queue`: as it is called here, if not by its whole name."""
    line = Text(no_wrap=True, overflow="ellipsis")
    line.append(clock(event.at), "dim")
    line.append(f"  {queue or f'{event.job.service}/{event.job.job_type}':<{_QUEUE_WIDTH}}")
    line.append(f"  {job.id[-_ID_SHOWN:] if short_id else job.id}  ", "dim")
    line.append(f"{event.kind.value:<{_KIND_WIDTH}}", STYLES[job.state])
    line.append(f"  {event_words(event, job)}", "dim" if isinstance(event, e.Begun) else "")
    line.rstrip()
    return line


def progress_words(progress: Progress) -> str:
    of = f"{progress.current}/{progress.total}" if progress.total else ""
    return " ".join(word for word in (of, progress.step, progress.message) if word)


def event_words(event: Event, job: Job | None = None) -> str:
    """What it says besides its kind; `job` as it left it, where that is known.

    What a short handler logs rides on the events of its attempt.
    """
    noted = _noted(event.notes) if isinstance(event, e.AttemptEvent) else []
    return "; ".join(filter(None, (_said(event, job), *noted)))


def _said(event: Event, job: Job | None) -> str:
    match event:
        case e.Retried():
            return "; ".join(filter(None, (_decision(event), _payload(event))))
        case e.Begun():
            return _payload(event)
        case e.Started():
            return f"try {event.tries}/{job.max_tries}" if job else f"try {event.tries}"
        case e.RetryScheduled() | e.Failed() | e.Dead() | e.Stale():
            return f"{_when(event)}: {event.error.type}: {event.error.message}"
        case e.Completed():
            return f"in {_taken(job)}, {_tries(event)}" if job else _tries(event)
        case e.StaleCompletionIgnored():
            return event.reason
        case e.Decided():
            return _decision(event)
        case _:
            return ""


def _payload(event: e.Begun) -> str:
    return json.dumps(redacted(event.payload, event.secrets), ensure_ascii=False)


def _decision(event: e.Decided | e.Retried) -> str:
    """Who made it, and why."""
    return ": ".join(filter(None, (f"by {event.by}" if event.by else "", event.reason)))


def _noted(notes: Notes) -> list[str]:
    progress = [progress_words(notes.progress)] if notes.progress else []
    return [*(line.message for line in notes.lines), *progress]


def _when(event: Event) -> str:
    if not isinstance(event, e.RetryScheduled):
        return f"after {_tries(event)}"
    if event.next_attempt_at is None:
        return "at once"
    return f"in {format_duration(event.next_attempt_at - event.at)}"


def _tries(event: Event) -> str:
    return "1 try" if event.tries == 1 else f"{event.tries} tries"


def _taken(job: Job) -> str:
    """Of its newest run; clocks of machines differ."""
    return format_duration(max(timedelta(), job.updated_at - job.run.began_at))
