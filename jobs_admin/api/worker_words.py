"""Sentences about a worker's silence, its death, and the directives that it got."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from trellis_jobs.model.durations import format_duration

if TYPE_CHECKING:
    from jobs_admin.api.views.workers import DirectiveView, WorkerProcessView


def silence_words(worker: WorkerProcessView, now: datetime) -> str | None:
    """Returns None for a worker that beats as it should, or has stopped."""
    if worker.verdict is not None:
        jobs = "1 job" if worker.verdict.jobs == 1 else f"{worker.verdict.jobs} jobs"
        action = "recovered" if worker.verdict.recovered else "is recovering"
        ago = format_duration(now - worker.verdict.at)
        return f"declared dead {ago} ago by {worker.verdict.by}, which {action} {jobs}"
    if not worker.silent:
        return None
    silent = f"silent for {format_duration(timedelta(milliseconds=worker.silent_for_ms))}"
    if worker.dead_at is None:
        return f"{silent}; only an admin runtime declares it dead and recovers its jobs"
    if worker.dead_at <= now:
        return f"{silent}; its jobs are about to be recovered"
    return f"{silent}; recovery in {format_duration(worker.dead_at - now)}"


def directive_words(directive: DirectiveView, when: str) -> str:
    """For example: directed to be quiet 3 min ago by ada: deploy."""
    by = f" by {directive.by}" if directive.by else ""
    reason = f": {directive.reason}" if directive.reason else ""
    return f"directed to be {directive.state} {when}{by}{reason}"
