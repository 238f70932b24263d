"""What an operation does to each of its jobs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from jobs_admin.actions import job_actions
from jobs_admin.actions.job_actions import legal_from
from jobs_admin.api.views.operations import OperationVerb
from trellis_jobs.model.events import EventKind
from trellis_jobs.model.states import LIVE, JobState

if TYPE_CHECKING:
    from collections.abc import Mapping

    from jobs_admin.actions.job_actions import Plan
    from trellis_jobs.model.job import Job


@dataclass(frozen=True, slots=True)
class Change:
    """`kind` is the event that `plan` makes; it is legal from these states."""

    plan: Plan
    kind: EventKind
    legal_from: frozenset[JobState]

    @property
    def states(self) -> list[JobState]:
        return [state for state in JobState if state in self.legal_from]

    def is_meant(self, job: Job, last_sequence: int, bound: int) -> bool:
        """Whether the job was in its state when the log ended at `bound`.

        A job that runs has new events all the time: of such, the run must have begun by then.
        """
        began = job.status.run if job.state in LIVE else last_sequence
        return began <= bound


CHANGES: Final[Mapping[OperationVerb, Change]] = {
    OperationVerb.RETRY: Change(
        job_actions.retry, EventKind.RETRIED, legal_from(EventKind.RETRIED)
    ),
    OperationVerb.REPLAY: Change(job_actions.retry, EventKind.RETRIED, frozenset({JobState.DEAD})),
    OperationVerb.CANCEL: Change(
        job_actions.cancel, EventKind.CANCELLED, legal_from(EventKind.CANCELLED)
    ),
    OperationVerb.DISMISS: Change(
        job_actions.dismiss, EventKind.DISMISSED, legal_from(EventKind.DISMISSED)
    ),
}
