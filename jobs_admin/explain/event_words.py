"""What an event says, in one line of words."""

from __future__ import annotations

import json
from datetime import UTC, timedelta
from typing import TYPE_CHECKING

from trellis_jobs.model import events as e
from trellis_jobs.model.durations import format_duration
from trellis_jobs.model.redaction import redacted

if TYPE_CHECKING:
    from trellis_jobs.model.events import Event
    from trellis_jobs.model.job import Job
    from trellis_jobs.model.notes import Notes, Progress


def progress_words(progress: Progress) -> str:
    of = f"{progress.current}/{progress.total}" if progress.total else ""
    return " ".join(word for word in (of, progress.step, progress.message) if word)


def event_name(event: Event) -> str:
    """The kind of an event, except that a snooze is not called a retry."""
    return "snoozed" if event.is_snooze else event.kind.value


def event_words(event: Event, job: Job | None = None) -> str:
    """The details of an event; `job` is the job after the event, if it is known.

    The events of an attempt also carry the log lines and the progress of its handler.
    """
    noted = _noted(event.notes) if isinstance(event, e.AttemptEvent) else []
    return "; ".join(filter(None, (_details(event, job), *noted)))


def _details(event: Event, job: Job | None) -> str:
    match event:
        case e.Described():
            return _description(event)
        case e.Started():
            return f"try {event.tries}/{job.max_tries}" if job else f"try {event.tries}"
        case e.RetryScheduled(is_snooze=True):
            return f"{_snoozed_for(event, job)}: {event.error.message}"
        case e.RetryScheduled() | e.Failed() | e.Dead() | e.Stale():
            return f"{_when(event)}: {event.error.type}: {event.error.message}"
        case e.Completed():
            return f"in {_duration(job)}, {_tries(event)}" if job else _tries(event)
        case e.StaleCompletionIgnored():
            return event.reason
        case e.Decided():
            return _decision(event)
        case _:
            return ""


def _description(event: e.Described) -> str:
    run_at = f"delayed until {_stamp(event)}" if isinstance(event, e.Scheduled) else ""
    return "; ".join(filter(None, (run_at, _decision(event), _payload(event))))


def _payload(event: e.Described) -> str:
    return json.dumps(redacted(event.payload, event.secrets), ensure_ascii=False)


def _decision(event: e.Decided | e.Described) -> str:
    """Who made the decision, and why."""
    return ": ".join(filter(None, (f"by {event.by}" if event.by else "", event.reason)))


def _noted(notes: Notes) -> list[str]:
    progress = [progress_words(notes.progress)] if notes.progress else []
    return [*(line.message for line in notes.lines), *progress]


def _snoozed_for(event: e.RetryScheduled, job: Job | None) -> str:
    """As the handler said it: from when it raised the snooze, a moment before the event."""
    raised_at = event.error.at
    length = format_duration((event.next_attempt_at or raised_at) - raised_at)
    return f"for {length}, snooze {job.snoozes}" if job else f"for {length}"


def _when(event: Event) -> str:
    if not isinstance(event, e.RetryScheduled):
        return f"after {_tries(event)}"
    if event.next_attempt_at is None:
        return "immediately"
    return f"in {format_duration(event.next_attempt_at - event.at)}"


def _tries(event: Event) -> str:
    return "1 try" if event.tries == 1 else f"{event.tries} tries"


def _duration(job: Job) -> str:
    """The duration of the latest run; never negative, although the machines' clocks differ."""
    return format_duration(max(timedelta(), job.updated_at - job.run.began_at))


def _stamp(event: e.Scheduled) -> str:
    at = event.run_at.astimezone(UTC)
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
