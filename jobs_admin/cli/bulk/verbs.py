"""The bulk changes: cancel, retry, replay, dismiss."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from jobs_admin.actions.job_actions import legal_from
from jobs_admin.api.client import AdminClient
from jobs_admin.api.views.jobs import ChangedJob
from jobs_admin.api.views.operations import OperationVerb
from trellis_jobs.model.events import EventKind
from trellis_jobs.model.identity import JobAddress
from trellis_jobs.model.states import JobState

Change = Callable[[AdminClient, str | JobAddress, str | None], Awaitable[ChangedJob]]


@dataclass(frozen=True, slots=True)
class Verb:
    """`legal_from` are the states in which a job accepts it; filters select only these."""

    name: str
    past: str
    going: str
    legal_from: frozenset[JobState]
    change: Change
    operation: OperationVerb

    @property
    def states(self) -> list[JobState]:
        return [state for state in JobState if state in self.legal_from]


CANCEL: Final = Verb(
    "cancel",
    "cancelled",
    "cancelling",
    legal_from(EventKind.CANCELLED),
    lambda admin, job, reason: admin.cancel(job, reason=reason),
    OperationVerb.CANCEL,
)
RETRY: Final = Verb(
    "retry",
    "retried",
    "retrying",
    legal_from(EventKind.RETRIED),
    lambda admin, job, reason: admin.retry(job, reason=reason),
    OperationVerb.RETRY,
)
REPLAY: Final = Verb(
    "replay",
    "replayed",
    "replaying",
    frozenset({JobState.DEAD}),
    lambda admin, job, reason: admin.replay(job, reason=reason),
    OperationVerb.REPLAY,
)
DISMISS: Final = Verb(
    "dismiss",
    "dismissed",
    "dismissing",
    legal_from(EventKind.DISMISSED),
    lambda admin, job, reason: admin.dismiss(job, reason=reason),
    OperationVerb.DISMISS,
)
BY_OPERATION: Final = {verb.operation: verb for verb in (CANCEL, RETRY, REPLAY, DISMISS)}
