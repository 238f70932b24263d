"""What every event does in every state: the state diagram of the design, written once.

Code elsewhere asks this table; it never spells a list of states of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

from trellis_jobs.model import events as e
from trellis_jobs.model.events import EventKind
from trellis_jobs.model.job_status import JobStatus
from trellis_jobs.model.states import LIVE, JobState
from trellis_jobs.model.values import Value

S = JobState


class Illegal(Value, frozen=True):
    reason: str


OwnershipCheck: TypeAlias = Callable[[JobStatus, e.Event], bool]


def always(_: JobStatus, __: e.Event) -> bool:
    return True


def is_owner(status: JobStatus, event: e.Event) -> bool:
    """The attempt named by the event owns the job (a foreign runtime names none, owning or not)."""
    return isinstance(event, e.AttemptEvent) and event.attempt == status.owner


def is_owner_or_no_attempt(status: JobStatus, event: e.Event) -> bool:
    """A claim of an attempt must be the owner's; a verdict on the job itself may be anyone's."""
    named = event.attempt if isinstance(event, e.AttemptEvent) else None
    return named is None or named == status.owner


class Rule(Value, frozen=True):
    """Where an event is legal (None: the job is not there), and where it leads (None: nowhere)."""

    legal_from: frozenset[JobState | None]
    leads_to: JobState | None
    owner_check: OwnershipCheck = always


def _rule(
    leads_to: JobState | None, *legal_from: JobState | None, owner_check: OwnershipCheck = always
) -> Rule:
    return Rule(frozenset(legal_from), leads_to, owner_check)


RULES: Final[Mapping[EventKind, Rule]] = {
    EventKind.CREATED: _rule(S.PENDING, None),
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
    EventKind.SKIPPED: _rule(S.SKIPPED, S.PENDING, S.RETRY),
    EventKind.DEAD: _rule(S.DEAD, *LIVE, owner_check=is_owner_or_no_attempt),
    # None too: retention may have purged the runs before this one.
    EventKind.RETRIED: _rule(S.PENDING, S.FAILED, S.DEAD, None),
    EventKind.DISMISSED: _rule(S.DISMISSED, S.DEAD),
}

NOTES: Final = frozenset(kind for kind, rule in RULES.items() if rule.leads_to is None)


def advance(before: JobStatus | None, event: e.Event) -> JobStatus | Illegal:
    """Where the job stands after one event, or why the event does not count."""
    rule = RULES[event.kind]
    state = before.state if before else None
    if state not in rule.legal_from and not _is_foreign_restart(state, event):
        return Illegal(f"{event.kind} is not legal from {state or 'nothing'}")
    if isinstance(event, e.Begun):
        return begin(event)
    if before is None:
        return Illegal(f"{event.kind} cannot begin a run")
    if not rule.owner_check(before, event):
        return Illegal(f"{event.kind} comes from an attempt that does not own the job")
    return _move(before, event, rule.leads_to)


def begin(event: e.Begun, run: int = 0) -> JobStatus:
    return JobStatus(S.PENDING, event.tries, event.max_tries, run, event.deadline)


def _is_foreign_restart(state: JobState | None, event: e.Event) -> bool:
    # A runtime that records no attempts starts a redelivered job with no retry event between.
    return state is S.ACTIVE and isinstance(event, e.Started) and event.attempt is None


def _move(before: JobStatus, event: e.Event, leads_to: JobState | None) -> JobStatus:
    if leads_to is None:
        return before
    return JobStatus(
        leads_to,
        # A verdict may have been written by somebody who had not seen the newest try.
        event.tries if isinstance(event, e.AttemptEvent) else before.tries,
        before.max_tries,
        before.run,
        before.deadline,
        owner=event.attempt if isinstance(event, e.Started) else None,
        next_attempt_at=event.next_attempt_at if isinstance(event, e.RetryScheduled) else None,
    )
