"""Explains how a job ended."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jobs_admin.api.reasons import Because
from jobs_admin.explain.explanation import Explanation
from jobs_admin.explain.words import (
    ended_because,
    ended_by,
    format_time,
    last_error,
    newest_errors,
)
from trellis_jobs.model.durations import format_duration
from trellis_jobs.model.job_errors import Interruption
from trellis_jobs.model.states import JobState

if TYPE_CHECKING:
    from trellis_jobs.model.job import Job


def explain_end(job: Job) -> Explanation:
    because, sentence = _ENDS.get(job.state, _decided)(job)
    then = _AFTERWARDS.get(job.state, "nothing: it has ended").format(id=job.id)
    details: dict[str, Any] = {"by": job.run.ended_by}
    if job.state is not JobState.EXPIRED:  # The sentence is the only reason there is.
        details["reason"] = job.run.ended_because
    if job.errors:
        details["errors"] = newest_errors(job)
    return Explanation(because, sentence, then, since=job.run.ended_at, details=details)


def _completed(job: Job) -> tuple[Because, str]:
    took = ""
    if job.run.started_at is not None and job.run.ended_at is not None:
        took = f" in {format_duration(job.run.ended_at - job.run.started_at)}"
    return Because.COMPLETED, f"It completed on try {job.tries} of {job.max_tries}{took}."


def _failed(job: Job) -> tuple[Because, str]:
    problem = last_error(job)
    return Because.FAILED, f"It failed on try {job.tries} and will not be retried: {problem}."


def _expired(job: Job) -> tuple[Because, str]:
    at = f" ({format_time(job.deadline)})" if job.deadline else ""
    when = "finished" if job.run.started_at else "started"
    return Because.EXPIRED, f"Its deadline{at} passed before it {when}."


def _skipped(job: Job) -> tuple[Because, str]:
    return Because.REPLACED, f"It never ran: its queue's policy dropped it{ended_because(job)}."


def _stale(job: Job) -> tuple[Because, str]:
    return Because.LEASE_LOST, f"It lost its key while it was running: {last_error(job)}."


def _dead(job: Job) -> tuple[Because, str]:
    """A job that dies with tries left has reached its delivery limit, whatever its last error."""
    tries = f"{job.tries} of {job.max_tries} tries"
    is_exhausted = job.last_error and job.last_error.type == Interruption.DELIVERIES_EXHAUSTED
    if is_exhausted or job.tries < job.max_tries:
        return Because.DELIVERIES_EXHAUSTED, (
            f"It is dead: it reached its delivery limit after {tries}; "
            f"the last error was {last_error(job)}."
        )
    return Because.OUT_OF_TRIES, f"It is dead after {tries}; the last error was {last_error(job)}."


def _dismissed(job: Job) -> tuple[Because, str]:
    return Because.DISMISSED, f"It died and was dismissed{ended_by(job)}{ended_because(job)}."


def _decided(job: Job) -> tuple[Because, str]:
    """An end by a decision, such as a cancellation. Its code has the name of the state."""
    return Because(job.state.value), f"It was {job.state}{ended_by(job)}{ended_because(job)}."


_ENDS = {
    JobState.COMPLETED: _completed,
    JobState.FAILED: _failed,
    JobState.EXPIRED: _expired,
    JobState.SKIPPED: _skipped,
    JobState.STALE: _stale,
    JobState.DEAD: _dead,
    JobState.DISMISSED: _dismissed,
}
_AFTERWARDS = {
    JobState.FAILED: "nothing, unless an operator retries it: `trellis-jobs jobs retry {id}`",
    JobState.DEAD: "an operator replays or dismisses it: "
    "`trellis-jobs dlq replay {id}` or `trellis-jobs dlq dismiss {id}`",
}
