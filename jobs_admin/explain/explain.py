"""Explains why a job is in its state, and what must happen next, from facts alone."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from jobs_admin.api.reasons import Because
from jobs_admin.api.schedule_words import created_by_schedule
from jobs_admin.explain.delayed import explain_delay
from jobs_admin.explain.ended import explain_end
from jobs_admin.explain.explanation import Explanation, Facts
from jobs_admin.explain.key_waits import key_taken
from jobs_admin.explain.words import (
    ago,
    due_in,
    format_time,
    last_error,
    newest_errors,
    nth,
    one_line,
    queue_of,
    snoozed_because,
)
from jobs_admin.explain.workers import no_worker_takes, owner_lost, stopping_words
from trellis_jobs.model.durations import format_duration
from trellis_jobs.model.states import JobState

if TYPE_CHECKING:
    from datetime import datetime

    from trellis_jobs.jetstream.work.consumer_info import QueueConsumer
    from trellis_jobs.model.job import Job


def explain(job: Job, facts: Facts) -> Explanation:
    found = _explain(job, facts)
    schedule = job.run.schedule
    if schedule is None:
        return found
    words = created_by_schedule(job.address, one_line(schedule), job.run.run_at)
    return replace(
        found,
        sentence=f"{found.sentence} It was created by {words}.",
        details={**found.details, "schedule": schedule},
    )


def _explain(job: Job, facts: Facts) -> Explanation:
    match job.state:
        case JobState.SCHEDULED:
            return _past_deadline(job, facts.now) or explain_delay(job, facts)
        case JobState.PENDING | JobState.RETRY:
            return _waiting(job, facts)
        case JobState.ACTIVE:
            return _running(job, facts)
        case _:
            return explain_end(job)


def _waiting(job: Job, facts: Facts) -> Explanation:
    """Name the first of several reasons that keep the job from starting."""
    found = (
        _past_deadline(job, facts.now)
        or _snoozed(job, facts.now)
        or _retry_later(job, facts.now)
        or _paused(job, facts)
        or no_worker_takes(job, facts)
        or _no_worker(job, facts)
        or _newer_than_workers(job, facts)
        or key_taken(job, facts)
    )
    return found or _queued(job, facts)


def _past_deadline(job: Job, now: datetime) -> Explanation | None:
    if job.deadline is None or job.deadline > now:
        return None
    return Explanation(
        Because.PAST_DEADLINE,
        f"Its deadline passed {ago(job.deadline, now)}, so it will not start.",
        "the janitor or a worker records that it expired",
        since=job.deadline,
    )


def _snoozed(job: Job, now: datetime) -> Explanation | None:
    until = job.run.snoozed_until
    if until is None or until <= now:
        return None
    expires = job.deadline is not None and job.deadline <= until
    at = f"its deadline ({format_time(until)})" if expires else format_time(until)
    return Explanation(
        Because.SNOOZED,
        f"Its handler snoozed it until {at}, for the {nth(job.snoozes)} time: "
        f"{snoozed_because(job)}.",
        "it expires at that time" if expires else f"a worker runs it again {due_in(until, now)}",
        since=job.updated_at,
        until=until,
        details={"snoozes": job.snoozes, "reason": job.run.snooze_reason},
    )


def _retry_later(job: Job, now: datetime) -> Explanation | None:
    at = job.status.next_attempt_at
    if job.state is not JobState.RETRY or at is None or at <= now:
        return None
    return Explanation(
        Because.RETRY_LATER,
        f"Try {job.tries} of {job.max_tries} failed ({last_error(job)}); "
        f"the next try is due {due_in(at, now)}.",
        f"a worker tries it again at {format_time(at)}",
        since=job.updated_at,
        until=at,
        details={"errors": newest_errors(job)},
    )


def _paused(job: Job, facts: Facts) -> Explanation | None:
    if facts.queue is None or not facts.queue.is_paused:
        return None
    paused = facts.queue
    remaining = paused.pause_remaining
    until = None if remaining is None else facts.now + remaining
    ends = f" until {format_time(until)}" if until else " until an operator resumes it"
    by = f" by {paused.paused_by}" if paused.paused_by else ""
    reason = f": {paused.paused_because}" if paused.paused_because else ""
    details = {"pausedBy": paused.paused_by, "pauseReason": paused.paused_because}
    return Explanation(
        Because.QUEUE_PAUSED,
        f"The queue {queue_of(job)} is paused{by}{ends}{reason}.",
        f"{'the pause ends, or ' if until else ''}an operator resumes the queue: "
        f"`trellis-jobs queues resume {queue_of(job)}`",
        since=job.updated_at,
        until=until,
        details={name: value for name, value in details.items() if value is not None},
    )


def _no_worker(job: Job, facts: Facts) -> Explanation | None:
    """The projection keeps a dead worker for a while, but it does not pull any more."""
    if facts.workers and not (facts.queue and facts.queue.has_no_worker):
        return None
    never = ", and there never was one" if facts.queue is None else ""
    silent = ": those seen recently have stopped or are quiet, and none pulls work"
    return Explanation(
        Because.NO_WORKER,
        f"No worker serves the queue {queue_of(job)}{silent if facts.workers else never}.",
        f"a worker of service {job.address.service} that handles {job.address.job_type} starts",
        since=job.updated_at,
    )


def _newer_than_workers(job: Job, facts: Facts) -> Explanation | None:
    if facts.known_version is None or job.run.version <= facts.known_version:
        return None
    return Explanation(
        Because.NEWER_VERSION,
        f"Its payload has version {job.run.version}, and the workers of {queue_of(job)} support "
        f"at most version {facts.known_version}, so they return it to the queue.",
        "a worker with newer code starts",
        since=job.updated_at,
        details={"payloadVersion": job.run.version, "knownVersion": facts.known_version},
    )


def _queued(job: Job, facts: Facts) -> Explanation:
    slots = sum(worker.slots for worker in facts.workers)
    details = {
        "workers": len(facts.workers),
        "places": slots,
        "running": facts.running,
        "queued": facts.queue.pending if facts.queue else None,
    }
    if facts.has_work is False:
        return Explanation(
            Because.WORK_LOST,
            "It has no message in the work queue, so no worker will receive it.",
            "the admin runtime's reconciliation puts it back into the work queue",
            since=job.updated_at,
            details=details,
        )
    if facts.running >= slots:
        return Explanation(
            Because.WORKERS_BUSY,
            f"Other jobs use all {slots} slots of the {len(facts.workers)} workers of "
            f"{queue_of(job)}.",
            "a running job ends, or another worker starts",
            since=job.updated_at,
            details=details,
        )
    if facts.was_delivered and facts.queue and facts.queue.delivery_limit is not None:
        return _may_be_given_up(job, facts.queue, details)
    return Explanation(
        Because.ABOUT_TO_START,
        f"A worker of {queue_of(job)} has a free slot and will take it in order.",
        "it starts after the jobs before it",
        since=job.updated_at,
        details=details,
    )


def _may_be_given_up(job: Job, queue: QueueConsumer, details: dict[str, Any]) -> Explanation:
    """Hedge, because the server does not say how often it has delivered a message."""
    limit = queue.delivery_limit
    return Explanation(
        Because.MAY_BE_GIVEN_UP,
        f"A worker of {queue_of(job)} received it before and did not finish it; the queue "
        f"delivers a job at most {limit} times, and that limit may be reached.",
        f"the server delivers it again within {format_duration(queue.ack_wait)}, or the admin "
        "runtime marks it dead",
        since=job.updated_at,
        details={**details, "deliveryLimit": limit},
    )


def _running(job: Job, facts: Facts) -> Explanation:
    owner, began = job.status.owner, job.run.started_at
    where = f" on worker {owner.instance}" if owner else ""
    since = f" since {format_time(began)}" if began else ""
    details: dict[str, Any] = {
        "instance": owner.instance if owner else None,
        "lastSeen": facts.owner_seen_at,
    }
    runs = "has been running" if began else "is running"
    sentence = f"Try {job.tries} of {job.max_tries} {runs}{where}{since}"
    lost = owner_lost(sentence, facts, began, details)
    if lost is not None:
        return lost
    if owner is not None and not facts.owner_is_present:
        seen = facts.owner_seen_at
        gone = f"was last seen {ago(seen, facts.now)}" if seen else "has never been seen"
        return _worker_gone(f"{sentence}, but that worker {gone}", facts, began, details)
    if job.deadline is not None and job.deadline <= facts.now:
        return Explanation(
            Because.PAST_DEADLINE,
            f"{sentence}, but its deadline passed {ago(job.deadline, facts.now)}.",
            "the janitor records that it expired, and its worker stops the handler",
            since=job.deadline,
            details=details,
        )
    stopping = stopping_words(facts)
    return Explanation(
        Because.RUNNING,
        f"{sentence}.{stopping}",
        "its handler returns, or the worker's grace period ends and it goes back to the queue"
        if stopping
        else "its handler returns",
        since=began,
        until=job.deadline,
        details=details,
    )


def _worker_gone(
    sentence: str, facts: Facts, since: datetime | None, details: dict[str, Any]
) -> Explanation:
    if facts.has_work is False:
        return Explanation(
            Because.WORK_LOST,
            f"{sentence}, and it has no message in the work queue.",
            "the admin runtime's reconciliation puts it back into the work queue, or marks it dead "
            "if that was its last try",
            since=since,
            details=details,
        )
    within = f" within {format_duration(facts.queue.ack_wait)}" if facts.queue else ""
    return Explanation(
        Because.WORKER_GONE,
        f"{sentence}.",
        f"the server delivers its message again{within}, and another worker takes the job over",
        since=since,
        details=details,
    )
