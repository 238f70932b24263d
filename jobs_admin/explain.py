"""Why a job is in the state it is in, and what must happen next: from facts to words, no more."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from trellis_jobs.model.states import JobState
from trellis_jobs.wire import job_errors

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime, timedelta

    from trellis_jobs.jetstream.stream_facts import QueueConsumer
    from trellis_jobs.model.job import Job
    from trellis_jobs.model.key_state import KeyState, Slot


class Because(StrEnum):
    """What scripts may rely on; the sentences are for people, and change."""

    PAST_DEADLINE = "past-deadline"
    RETRY_LATER = "retry-later"
    QUEUE_PAUSED = "queue-paused"
    NO_WORKER = "no-worker"
    WAITING_FOR_KEY = "waiting-for-key"
    KEY_BLOCKED = "key-blocked"
    WORK_LOST = "work-lost"
    WORKERS_BUSY = "workers-busy"
    ABOUT_TO_START = "about-to-start"
    RUNNING = "running"
    WORKER_GONE = "worker-gone"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"
    EXPIRED = "expired"
    REPLACED = "replaced"
    LEASE_LOST = "lease-lost"
    OUT_OF_TRIES = "out-of-tries"
    DISMISSED = "dismissed"


@dataclass(frozen=True, slots=True)
class Worker:
    """One that works on the job's queue, and when it was heard of last."""

    instance: str
    seen_at: datetime
    places: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """`workers` are those heard of lately; `running` counts the queue's active jobs.

    `owner_seen_at` is of the worker that runs the job. `has_work` is None where it was not asked.
    """

    now: datetime
    workers: tuple[Worker, ...] = ()
    owner_seen_at: datetime | None = None
    owner_is_present: bool = True
    running: int = 0
    queue: QueueConsumer | None = None
    key: KeyState | None = None
    has_work: bool | None = None


@dataclass(frozen=True, slots=True)
class Explanation:
    """One plain sentence, what must happen next, and both as data."""

    because: Because
    sentence: str
    next: str
    since: datetime | None = None
    until: datetime | None = None
    details: Mapping[str, Any] = field(default_factory=dict)


def explain(job: Job, facts: Facts) -> Explanation:
    match job.state:
        case JobState.PENDING | JobState.RETRY:
            return _waiting(job, facts)
        case JobState.ACTIVE:
            return _running(job, facts)
        case _:
            return _over(job)


def _waiting(job: Job, facts: Facts) -> Explanation:
    """The first thing that would keep it from starting, were everything else all right."""
    found = (
        _past_deadline(job, facts.now)
        or _retry_later(job, facts.now)
        or _paused(job, facts)
        or _no_worker(job, facts)
        or _key_taken(job, facts)
    )
    return found or _in_line(job, facts)


def _past_deadline(job: Job, now: datetime) -> Explanation | None:
    if job.deadline is None or job.deadline > now:
        return None
    return Explanation(
        Because.PAST_DEADLINE,
        f"Its deadline passed {_ago(job.deadline, now)}, so it will not start any more.",
        "the janitor, or the next worker that meets it, records that it expired",
        since=job.deadline,
    )


def _retry_later(job: Job, now: datetime) -> Explanation | None:
    at = job.standing.next_attempt_at
    if job.state is not JobState.RETRY or at is None or at <= now:
        return None
    return Explanation(
        Because.RETRY_LATER,
        f"Try {job.tries} of {job.max_tries} did not succeed ({_last_error(job)}); "
        f"the next is due {_in(at, now)}.",
        f"its time comes at {_clock(at)}, then a worker tries it again",
        since=job.updated_at,
        until=at,
        details={"errors": _errors(job)},
    )


def _paused(job: Job, facts: Facts) -> Explanation | None:
    if facts.queue is None or not facts.queue.is_paused:
        return None
    remaining = facts.queue.pause_remaining
    until = None if remaining is None else facts.now + remaining
    ends = f" until {_clock(until)}" if until else ""
    return Explanation(
        Because.QUEUE_PAUSED,
        f"The queue {_queue(job)} is paused{ends}.",
        "the pause ends, or somebody resumes the queue",
        since=job.updated_at,
        until=until,
    )


def _no_worker(job: Job, facts: Facts) -> Explanation | None:
    if facts.workers:
        return None
    never = "; none ever was" if facts.queue is None else ""
    return Explanation(
        Because.NO_WORKER,
        f"No worker is there for the queue {_queue(job)}{never}.",
        f"a worker of service {job.address.service} that handles {job.address.job_type} starts",
        since=job.updated_at,
    )


def _key_taken(job: Job, facts: Facts) -> Explanation | None:
    key, held = facts.key, job.run.concurrency
    if key is None or held is None or key.slot_of(job.id) or len(key.active) < key.max_active:
        return None
    place = next((n for n, each in enumerate(key.queued, 1) if each.job_id == job.id), None)
    details = {
        "key": held.key,
        "holders": [_holder(slot, facts.now) for slot in key.active],
        "place": place,
        "waiting": len(key.queued),
    }
    first = min(key.active, key=lambda slot: slot.expires_at)
    holder = f"job {first.job_id} on {first.instance}"
    if all(slot.expires_at <= facts.now for slot in key.active):
        return Explanation(
            Because.KEY_BLOCKED,
            f"Its key {held.key} is held by {holder}, whose lease ended "
            f"{_ago(first.expires_at, facts.now)}.",
            "a waiting worker takes the key over, or an operator releases it",
            since=first.expires_at,
            details=details,
        )
    in_line = f"; it is number {place} of {len(key.queued)} that wait" if place else ""
    return Explanation(
        Because.WAITING_FOR_KEY,
        f"Its key {held.key} is held by {holder} since {_clock(first.started_at)}{in_line}.",
        f"that job ends, or its lease does at {_clock(first.expires_at)} unless it is renewed",
        since=job.updated_at,
        until=first.expires_at,
        details=details,
    )


def _in_line(job: Job, facts: Facts) -> Explanation:
    places = sum(worker.places for worker in facts.workers)
    details = {
        "workers": len(facts.workers),
        "places": places,
        "running": facts.running,
        "queued": facts.queue.pending if facts.queue else None,
    }
    if facts.has_work is False:
        return Explanation(
            Because.WORK_LOST,
            "No message stands for it in the work queue, so no worker will hear of it.",
            "the admin runtime's reconciliation puts it back to work",
            since=job.updated_at,
            details=details,
        )
    if facts.running >= places:
        return Explanation(
            Because.WORKERS_BUSY,
            f"All {places} places of the {len(facts.workers)} workers of {_queue(job)} are taken "
            f"by other jobs.",
            "a running job ends, or another worker starts",
            since=job.updated_at,
            details=details,
        )
    return Explanation(
        Because.ABOUT_TO_START,
        f"A worker of {_queue(job)} has a free place and takes it in its turn.",
        "the jobs before it are taken, then it starts",
        since=job.updated_at,
        details=details,
    )


def _running(job: Job, facts: Facts) -> Explanation:
    owner, began = job.standing.owner, job.run.started_at
    where = f" on {owner.instance}" if owner else ""
    since = f" since {_clock(began)}" if began else ""
    details: dict[str, Any] = {
        "instance": owner.instance if owner else None,
        "lastSeen": facts.owner_seen_at,
    }
    sentence = f"Try {job.tries} of {job.max_tries} runs{where}{since}"
    if owner is not None and not facts.owner_is_present:
        seen = facts.owner_seen_at
        heard = f"was last heard of {_ago(seen, facts.now)}" if seen else "was never heard of"
        wait = facts.queue.ack_wait if facts.queue else None
        within = f" within {_span(wait)}" if wait else ""
        return Explanation(
            Because.WORKER_GONE,
            f"{sentence}, but that worker {heard}.",
            f"its message is delivered again{within}, and another worker takes the job over",
            since=began,
            details=details,
        )
    if job.deadline is not None and job.deadline <= facts.now:
        return Explanation(
            Because.PAST_DEADLINE,
            f"{sentence}, but its deadline passed {_ago(job.deadline, facts.now)}.",
            "the janitor records that it expired, and its handler is told to stop",
            since=job.deadline,
            details=details,
        )
    return Explanation(
        Because.RUNNING,
        f"{sentence}.",
        "its handler ends",
        since=began,
        until=job.deadline,
        details=details,
    )


def _over(job: Job) -> Explanation:
    because, sentence = _ENDS[job.state](job)
    then = _AFTERWARDS.get(job.state, "nothing: it is over")
    details: dict[str, Any] = {"by": job.run.decided_by, "reason": job.run.ended_because}
    if job.errors:
        details["errors"] = _errors(job)
    return Explanation(because, sentence, then, since=job.run.ended_at, details=details)


def _completed(job: Job) -> tuple[Because, str]:
    took = ""
    if job.run.started_at is not None and job.run.ended_at is not None:
        took = f" in {_span(job.run.ended_at - job.run.started_at)}"
    return Because.COMPLETED, f"It completed on try {job.tries} of {job.max_tries}{took}."


def _failed(job: Job) -> tuple[Because, str]:
    return Because.FAILED, f"It failed for good on try {job.tries}: {_last_error(job)}."


def _cancelled(job: Job) -> tuple[Because, str]:
    return Because.CANCELLED, f"It was cancelled{_by(job)}{_reason(job)}."


def _expired(job: Job) -> tuple[Because, str]:
    at = f" of {job.deadline.isoformat()}" if job.deadline else ""
    return Because.EXPIRED, f"Its deadline{at} passed before it was done{_reason(job)}."


def _skipped(job: Job) -> tuple[Because, str]:
    return Because.REPLACED, f"It never ran: its queue's policy dropped it{_reason(job)}."


def _stale(job: Job) -> tuple[Because, str]:
    return Because.LEASE_LOST, f"It lost its key while it ran: {_last_error(job)}."


def _dead(job: Job) -> tuple[Because, str]:
    tries = f"{job.tries} of {job.max_tries} tries"
    return Because.OUT_OF_TRIES, f"It is dead after {tries}; the last error: {_last_error(job)}."


def _dismissed(job: Job) -> tuple[Because, str]:
    return Because.DISMISSED, f"It died, and was dismissed{_by(job)}{_reason(job)}."


_ENDS = {
    JobState.COMPLETED: _completed,
    JobState.FAILED: _failed,
    JobState.CANCELLED: _cancelled,
    JobState.EXPIRED: _expired,
    JobState.SKIPPED: _skipped,
    JobState.STALE: _stale,
    JobState.DEAD: _dead,
    JobState.DISMISSED: _dismissed,
}
_AFTERWARDS = {
    JobState.FAILED: "nothing, unless an operator retries it (Jobs.Retry)",
    JobState.DEAD: "an operator replays it (Jobs.ReplayDLQ) or dismisses it (Jobs.DismissDLQ)",
}


def _holder(slot: Slot, now: datetime) -> dict[str, Any]:
    return {
        "jobId": slot.job_id,
        "instanceId": slot.instance,
        "startedAt": slot.started_at,
        "heartbeatAt": slot.heartbeat_at,
        "leaseExpiresAt": slot.expires_at,
        "isExpired": slot.expires_at <= now,
    }


def _errors(job: Job) -> list[dict[str, Any]]:
    """The newest first, without tracebacks: Jobs.Get has those."""
    told = ("type", "message", "tries", "timestamp")
    return [{k: job_errors.to_json(e)[k] for k in told} for e in reversed(job.errors)][:5]


def _last_error(job: Job) -> str:
    return job_errors.text(job.last_error) if job.last_error else "no error was recorded"


def _by(job: Job) -> str:
    return f" by {job.run.decided_by}" if job.run.decided_by else ""


def _reason(job: Job) -> str:
    return f": {job.run.ended_because}" if job.run.ended_because else ""


def _queue(job: Job) -> str:
    return f"{job.address.service}/{job.address.job_type}"


def _clock(at: datetime) -> str:
    return at.isoformat(timespec="seconds").replace("+00:00", "Z")


def _ago(at: datetime, now: datetime) -> str:
    return f"{_span(now - at)} ago"


def _in(at: datetime, now: datetime) -> str:
    return f"in {_span(at - now)}"


def _span(span: timedelta) -> str:
    """As people say it: one unit, or two."""
    seconds = max(0.0, span.total_seconds())
    if seconds < 60:  # noqa: PLR2004 - of a minute
        return f"{seconds:.3g} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:  # noqa: PLR2004 - of an hour
        return f"{minutes} min {rest} s" if rest else f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if minutes else f"{hours} h"
