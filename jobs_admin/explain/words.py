"""Phrases for explanations: times, errors, and who ended a job."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from trellis_jobs.model.durations import format_duration
from trellis_jobs.wire import job_errors

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from trellis_jobs.model.job import Job


_MAX_LENGTH: Final = 200
_TEENS: Final = frozenset({11, 12, 13})
_ORDINALS: Final[Mapping[int, str]] = {1: "1st", 2: "2nd", 3: "3rd"}


def newest_errors(job: Job) -> list[dict[str, Any]]:
    """The five newest errors without tracebacks, which Jobs.Get has."""
    fields = ("type", "message", "tries", "timestamp")
    return [{k: job_errors.to_json(e)[k] for k in fields} for e in reversed(job.errors)][:5]


def last_error(job: Job) -> str:
    return one_line(job_errors.text(job.last_error)) if job.last_error else "no error was recorded"


def snoozed_because(job: Job) -> str:
    return one_line(job.run.snooze_reason or "no reason was recorded")


def nth(number: int) -> str:
    """`1st`, `2nd`, `3rd`, `4th`, …, `11th`."""
    tens, ones = divmod(number, 10)
    if ones not in _ORDINALS or number % 100 in _TEENS:
        return f"{number}th"
    return f"{tens or ''}{_ORDINALS[ones]}"


def ended_by(job: Job) -> str:
    return f" by {job.run.ended_by}" if job.run.ended_by else ""


def ended_because(job: Job) -> str:
    return f": {one_line(job.run.ended_because)}" if job.run.ended_because else ""


def queue_of(job: Job) -> str:
    return f"{job.address.service}/{job.address.job_type}"


def format_time(at: datetime) -> str:
    return at.isoformat(timespec="seconds").replace("+00:00", "Z")


def ago(at: datetime, now: datetime) -> str:
    return f"{format_duration(now - at)} ago"


def due_in(at: datetime, now: datetime) -> str:
    return f"in {format_duration(at - now)}"


def one_line(text: str) -> str:
    """Shorten to one line; the details have the full text."""
    line = " ".join(text.split())
    return line if len(line) <= _MAX_LENGTH else f"{line[:_MAX_LENGTH]}…"
