"""Explains what the records of workers say about a job: silent, dead, quiet or stopping."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jobs_admin.api.reasons import Because
from jobs_admin.api.worker_words import directive_words, silence_words
from jobs_admin.explain.explanation import Explanation
from jobs_admin.explain.words import ago, queue_of
from trellis_jobs.model.worker_states import WorkerState

if TYPE_CHECKING:
    from datetime import datetime

    from jobs_admin.api.views.workers import WorkerProcessView
    from jobs_admin.explain.explanation import Facts
    from trellis_jobs.model.job import Job


def owner_lost(
    sentence: str, facts: Facts, since: datetime | None, details: dict[str, Any]
) -> Explanation | None:
    """The worker that runs the job is silent, or was declared dead."""
    owner = facts.owner
    words = None if owner is None else silence_words(owner, facts.now)
    if owner is None or words is None:
        return None
    # The admin runtime puts the job back when the worker is declared dead.
    until = owner.dead_at if owner.verdict is None else None
    is_dead = owner.verdict is not None
    return Explanation(
        Because.WORKER_GONE if is_dead else Because.WORKER_SILENT,
        f"{sentence}, but its worker {owner.name} {'was ' if is_dead else 'has been '}{words}.",
        "the admin runtime puts it back, and another worker takes it over"
        if is_dead
        else "its worker reports again, or is declared dead and another worker takes the job over",
        since=since,
        until=until,
        details={**details, "worker": owner.name},
    )


def stopping_words(facts: Facts) -> str:
    """Says that the worker of a running job is stopping; empty if it is not."""
    owner = facts.owner
    if owner is None or owner.state is not WorkerState.TERMINATE:
        return ""
    directive = "" if owner.wanted is None else f" ({_directive(owner, facts.now)})"
    return f" Its worker {owner.name} is stopping{directive}."


def no_worker_takes(job: Job, facts: Facts) -> Explanation | None:
    """All workers of the queue are quiet or stopping; workers without a record may take the job."""
    found = facts.processes
    with_record = {process.instance_id for process in found}
    others = [worker for worker in facts.workers if worker.instance not in with_record]
    if not found or others or any(each.state is WorkerState.RUNNING for each in found):
        return None
    quiet = [each for each in found if each.state is WorkerState.QUIET]
    parts = [
        _group(each, words)
        for each, words in ((quiet, "quiet"), ([p for p in found if p not in quiet], "stopping"))
        if each
    ]
    directed = next((each for each in found if each.wanted is not None), None)
    why = "" if directed is None else f" ({_directive(directed, facts.now)})"
    resume = f"`trellis-jobs workers resume --service {job.address.service}`"
    return Explanation(
        Because.NO_WORKER,
        f"No worker takes jobs of the queue {queue_of(job)}: {' and '.join(parts)}{why}.",
        f"an operator resumes the quiet workers ({resume}), or another worker starts"
        if quiet
        else f"a worker that handles {queue_of(job)} starts",
        since=job.updated_at,
        details={"workers": [each.name for each in found]},
    )


def _group(workers: list[WorkerProcessView], words: str) -> str:
    return f"1 worker is {words}" if len(workers) == 1 else f"{len(workers)} workers are {words}"


def _directive(worker: WorkerProcessView, now: datetime) -> str:
    return (
        "" if worker.wanted is None else directive_words(worker.wanted, ago(worker.wanted.at, now))
    )
