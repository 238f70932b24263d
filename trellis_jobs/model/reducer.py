"""The state machine of a job: which events are legal in which state, and where they lead.

All other code uses this table instead of listing states itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

from trellis_jobs.model import events as e
from trellis_jobs.model.events import EventKind
from trellis_jobs.model.job_status import JobStatus
from trellis_jobs.model.states import ENQUEUED, LIVE, OVER, JobState
from trellis_jobs.model.values import Value

S = JobState


class Illegal(Value, frozen=True):
    reason: str


OwnershipCheck: TypeAlias = Callable[[JobStatus, e.Event], bool]


def always(_: JobStatus, __: e.Event) -> bool:
    return True


def is_owner(status: JobStatus, event: e.Event) -> bool:
    """The event's attempt owns the job. Both are None for the jobs of a foreign runtime."""
    return isinstance(event, e.AttemptEvent) and event.attempt == status.owner


def is_owner_or_no_attempt(status: JobStatus, event: e.Event) -> bool:
    """An event that names an attempt must come from the owner; any writer may name none."""
    named = event.attempt if isinstance(event, e.AttemptEvent) else None
    return named is None or named == status.owner


class Rule(Value, frozen=True):
    """The states in which an event is legal (None: no job exists) and the state it leads to.

    `leads_to` is None for events that do not change the state.
    """

    legal_from: frozenset[JobState | None]
    leads_to: JobState | None
    owner_check: OwnershipCheck = always


def _rule(
    leads_to: JobState | None, *legal_from: JobState | None, owner_check: OwnershipCheck = always
) -> Rule:
    return Rule(frozenset(legal_from), leads_to, owner_check)


RULES: Final[Mapping[EventKind, Rule]] = {
    # A job that waits, also for its next try, can be moved to another time, or be released at once.
    EventKind.SCHEDULED: _rule(S.SCHEDULED, None, S.SCHEDULED, S.PENDING, S.RETRY),
    EventKind.CREATED: _rule(S.PENDING, None, S.SCHEDULED, S.PENDING, S.RETRY),
    EventKind.STARTED: _rule(S.ACTIVE, S.PENDING, S.RETRY),
    EventKind.PROGRESS: _rule(None, S.ACTIVE, owner_check=is_owner),
    EventKind.LOGGED: _rule(None, S.ACTIVE, owner_check=is_owner),
    EventKind.HEARTBEAT: _rule(None, S.ACTIVE, owner_check=is_owner),
    EventKind.STALE_COMPLETION_IGNORED: _rule(None, *S),
    EventKind.RETRY: _rule(S.RETRY, S.ACTIVE, owner_check=is_owner),
    EventKind.COMPLETED: _rule(S.COMPLETED, S.ACTIVE, owner_check=is_owner),
    EventKind.FAILED: _rule(S.FAILED, S.ACTIVE, owner_check=is_owner),
    EventKind.STALE: _rule(S.STALE, S.ACTIVE, owner_check=is_owner_or_no_attempt),
    EventKind.CANCELLED: _rule(S.CANCELLED, *LIVE),
    EventKind.EXPIRED: _rule(S.EXPIRED, *LIVE),
    EventKind.SKIPPED: _rule(S.SKIPPED, S.SCHEDULED, S.PENDING, S.RETRY),
    EventKind.DEAD: _rule(S.DEAD, *ENQUEUED, owner_check=is_owner_or_no_attempt),
    # Legal as the first event too, because retention may have purged the earlier runs.
    EventKind.RETRIED: _rule(S.PENDING, S.FAILED, S.DEAD, None),
    EventKind.DISMISSED: _rule(S.DISMISSED, S.DEAD),
}

NOTES: Final = frozenset(kind for kind, rule in RULES.items() if rule.leads_to is None)
# Events by which another process ends a job while its handler runs or it waits for its key.
ENDED_FROM_OUTSIDE: Final = tuple(
    kind
    for kind, rule in RULES.items()
    if rule.leads_to in OVER and rule.legal_from & LIVE and rule.owner_check is not is_owner
)


def advance(before: JobStatus | None, event: e.Event) -> JobStatus | Illegal:
    """Return the job's status after one event, or why the event is illegal."""
    rule = RULES[event.kind]
    state = before.state if before else None
    if state not in rule.legal_from and not _is_foreign_restart(state, event):
        return Illegal(f"{event.kind} is not legal from {state or 'nothing'}")
    if isinstance(event, e.Described):
        return begin(event, snoozes=0 if before is None or before.is_over else before.snoozes)
    if before is None:
        return Illegal(f"{event.kind} cannot begin a run")
    if not rule.owner_check(before, event):
        return Illegal(f"{event.kind} comes from an attempt that does not own the job")
    return _move(before, event, rule.leads_to)


def begin(event: e.Described, run: int = 0, snoozes: int = 0) -> JobStatus:
    """`snoozes`: those before the job was moved to another time or released. A new run has none."""
    if isinstance(event, e.Scheduled):
        return JobStatus(
            S.SCHEDULED,
            event.tries,
            event.max_tries,
            run,
            event.deadline,
            next_attempt_at=event.run_at,
            snoozes=snoozes,
        )
    return JobStatus(S.PENDING, event.tries, event.max_tries, run, event.deadline, snoozes=snoozes)


def _is_foreign_restart(state: JobState | None, event: e.Event) -> bool:
    # A runtime that records no attempts restarts a redelivered job without a retry event.
    return state is S.ACTIVE and isinstance(event, e.Started) and event.attempt is None


def _move(before: JobStatus, event: e.Event, leads_to: JobState | None) -> JobStatus:
    if leads_to is None:
        return before
    next_attempt_at, snoozes = None, before.snoozes
    if isinstance(event, e.RetryScheduled):
        next_attempt_at = event.next_attempt_at
        snoozes += event.is_snooze
    return JobStatus(
        leads_to,
        # Other events may have been written by a process that had not seen the newest attempt.
        event.tries if isinstance(event, e.AttemptEvent) else before.tries,
        before.max_tries,
        before.run,
        before.deadline,
        owner=event.attempt if isinstance(event, e.Started) else None,
        next_attempt_at=next_attempt_at,
        snoozes=snoozes,
    )
