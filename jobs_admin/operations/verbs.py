"""What each verb of an operation does to a job, and in which states it is legal."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from jobs_admin.actions import job_actions
from jobs_admin.actions.job_actions import legal_from
from jobs_admin.api.views.operations import OperationVerb
from trellis_jobs.model.delays import MOVABLE, RELEASABLE
from trellis_jobs.model.events import EventKind
from trellis_jobs.model.states import LIVE, JobState

if TYPE_CHECKING:
    from collections.abc import Mapping

    from jobs_admin.actions.job_actions import Plan
    from trellis_jobs.model.job import Job


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """`kind` is the event that `plan` makes, which is legal from these states.

    `participle` is the verb in messages: "only dead jobs can be replayed".
    """

    plan: Plan
    kind: EventKind
    legal_from: frozenset[JobState]
    participle: str

    @property
    def states(self) -> list[JobState]:
        return [state for state in JobState if state in self.legal_from]

    def is_included(self, job: Job, last_sequence: int, bound: int) -> bool:
        """Whether the job was already in its state when the log ended at `bound`.

        A live job gets new events all the time; it is included if its run began before `bound`.
        """
        began = job.status.run if job.state in LIVE else last_sequence
        return began <= bound


def _change(plan: Plan, kind: EventKind, participle: str) -> Change:
    return Change(plan=plan, kind=kind, legal_from=legal_from(kind), participle=participle)


CHANGES: Final[Mapping[OperationVerb, Change]] = {
    OperationVerb.RETRY: _change(job_actions.retry, EventKind.RETRIED, "retried"),
    OperationVerb.REPLAY: Change(
        plan=job_actions.retry,
        kind=EventKind.RETRIED,
        legal_from=frozenset({JobState.DEAD}),
        participle="replayed",
    ),
    OperationVerb.CANCEL: _change(job_actions.cancel, EventKind.CANCELLED, "cancelled"),
    OperationVerb.DISMISS: _change(job_actions.dismiss, EventKind.DISMISSED, "dismissed"),
    OperationVerb.RESCHEDULE: Change(
        plan=job_actions.reschedule,
        kind=EventKind.SCHEDULED,
        legal_from=MOVABLE,
        participle="rescheduled",
    ),
    OperationVerb.RUN_NOW: Change(
        plan=job_actions.reschedule,
        kind=EventKind.SCHEDULED,
        legal_from=RELEASABLE,
        participle="released",
    ),
}
