"""The bulk changes: cancel, retry, replay, dismiss, reschedule, run now."""

from __future__ import annotations

from collections.abc import Awaitable
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Final, Protocol

from jobs_admin.api.client import AdminClient
from jobs_admin.api.views.jobs import ChangedJob
from jobs_admin.api.views.operations import OperationVerb
from jobs_admin.operations.verbs import CHANGES
from trellis_jobs.model.identity import JobAddress
from trellis_jobs.model.states import JobState


class _ChangeJob(Protocol):
    def __call__(
        self, admin: AdminClient, /, job: str | JobAddress, *, reason: str | None
    ) -> Awaitable[ChangedJob]: ...


@dataclass(frozen=True, slots=True)
class Verb:
    """`change` changes a single job; `going` is the verb in a progress bar.

    `run_at` is the time to which jobs are moved.
    """

    operation: OperationVerb
    going: str
    change: _ChangeJob
    run_at: datetime | None = None

    @property
    def name(self) -> str:
        return self.operation.value

    @property
    def imperative(self) -> str:
        """The verb in a question or an advice: `release 2 jobs`."""
        return "release" if self.operation is OperationVerb.RUN_NOW else self.name

    @property
    def past(self) -> str:
        return CHANGES[self.operation].participle

    @property
    def states(self) -> list[JobState]:
        """The states in which a job accepts it; filters select only these."""
        return CHANGES[self.operation].states


CANCEL: Final = Verb(OperationVerb.CANCEL, "cancelling", AdminClient.cancel)
RETRY: Final = Verb(OperationVerb.RETRY, "retrying", AdminClient.retry)
REPLAY: Final = Verb(OperationVerb.REPLAY, "replaying", AdminClient.replay)
DISMISS: Final = Verb(OperationVerb.DISMISS, "dismissing", AdminClient.dismiss)
RUN_NOW: Final = Verb(OperationVerb.RUN_NOW, "releasing", AdminClient.run_now)


def reschedule_to(run_at: datetime) -> Verb:
    change = partial(AdminClient.reschedule, run_at=run_at)
    return Verb(OperationVerb.RESCHEDULE, "rescheduling", change, run_at)
