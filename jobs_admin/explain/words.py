"""Words for explanations: times as people say them, and what a job says about itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from trellis_jobs.model.durations import format_duration
from trellis_jobs.wire import job_errors

if TYPE_CHECKING:
    from datetime import datetime

    from trellis_jobs.model.job import Job


_LONGEST: Final = 200


def newest_errors(job: Job) -> list[dict[str, Any]]:
    """The newest first, without tracebacks: Jobs.Get has those."""
    told = ("type", "message", "tries", "timestamp")
    return [{k: job_errors.to_json(e)[k] for k in told} for e in reversed(job.errors)][:5]


def last_error(job: Job) -> str:
    return _line(job_errors.text(job.last_error)) if job.last_error else "no error was recorded"


def by_whom(job: Job) -> str:
    return f" by {job.run.ended_by}" if job.run.ended_by else ""


def why(job: Job) -> str:
    return f": {_line(job.run.ended_because)}" if job.run.ended_because else ""


def queue_of(job: Job) -> str:
    return f"{job.address.service}/{job.address.job_type}"


def clock(at: datetime) -> str:
    return at.isoformat(timespec="seconds").replace("+00:00", "Z")


def ago(at: datetime, now: datetime) -> str:
    return f"{format_duration(now - at)} ago"


def due_in(at: datetime, now: datetime) -> str:
    return f"in {format_duration(at - now)}"


def _line(text: str) -> str:
    """In one line, and not a long one: the whole of it is in the details."""
    line = " ".join(text.split())
    return line if len(line) <= _LONGEST else f"{line[:_LONGEST]}…"
