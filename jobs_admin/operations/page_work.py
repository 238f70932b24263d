"""Change the jobs of one page: many at once, no faster than asked, each at most once.

The projection's row is the guard of the append. If the job has moved since, the server refuses, and
only then its history is read. A job that this operation changed before (its daemon died before it
could say so) carries the operation's id in its newest event, and counts as done.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import TYPE_CHECKING, Final

from jobs_admin.actions.job_actions import ActionRequest, Done, NoSuchJob, NotLegal
from jobs_admin.api.views.operations import RefusalView
from jobs_admin.operations.operation import EXAMPLES
from jobs_admin.operations.verbs import CHANGES
from trellis_jobs.errors import InfrastructureError, JobsError, NotConfirmed

if TYPE_CHECKING:
    from collections.abc import Iterable

    from jobs_admin.actions.job_actions import Actions
    from jobs_admin.operations.operation import Operation
    from jobs_admin.operations.pace import Pace
    from jobs_admin.reads.targets import Target
    from trellis_jobs.model.identity import JobAddress
    from trellis_jobs.model.job import Job

AT_ONCE: Final = 200
NOT_FOUND: Final = "not found"
# Messages of errors may name their job: so many reasons are told apart, as all are in one record.
MOST_REASONS: Final = 20
OTHER_REASONS: Final = "other reasons"
_LONGEST_REASON: Final = 200


class Settled:
    """What has become of the operation's jobs so far; of those that refused, some examples.

    `last_sequence` is of the newest event that this process appended.
    """

    def __init__(self, before: Operation) -> None:
        self.done = before.done
        self.last_sequence = 0
        self.refused = Counter(before.refused)
        self.refusals = list(before.refusals)

    def refuse(self, job: JobAddress | None, reason: str) -> None:
        is_counted = reason in self.refused or len(self.refused) < MOST_REASONS
        self.refused[reason if is_counted else OTHER_REASONS] += 1
        if job is not None and len(self.refusals) < EXAMPLES:
            self.refusals.append(
                RefusalView(id=job.job_id, service=job.service, type=job.job_type, reason=reason)
            )


class PageWork:
    """`pending` are the numbers of jobs that were taken up and are not settled."""

    def __init__(
        self,
        operation: Operation,
        actions: Actions,
        pace: Pace,
        stop: asyncio.Event,
    ) -> None:
        self.pending: set[int] = set()
        self.settled = Settled(operation)
        self._operation = operation
        self._change = CHANGES[operation.verb]
        self._order = ActionRequest(by=operation.by, reason=operation.reason, request=operation.id)
        self._actions = actions
        self._pace = pace
        self._stop = stop

    async def do(self, targets: Iterable[Target]) -> None:
        """Returns when each is settled, or it is time to stop.

        An outage is raised once all that were begun have ended; they stay pending.
        """
        free = asyncio.Semaphore(AT_ONCE)
        begun: list[asyncio.Task[None]] = []

        async def settle(target: Target) -> None:
            try:
                await self._settle(target)
            finally:
                free.release()

        try:
            for target in targets:
                await self._pace.turn(self._stop)
                await free.acquire()
                if self._stop.is_set():
                    break
                begun.append(asyncio.create_task(settle(target)))
            ended = await asyncio.gather(*begun, return_exceptions=True)
        finally:
            for task in begun:
                task.cancel()
        for outcome in ended:
            if isinstance(outcome, BaseException):
                raise outcome

    def give_up(self, numbers: Iterable[int]) -> None:
        """Jobs that were taken up and that the projection has no more."""
        for number in numbers:
            self.pending.discard(number)
            self.settled.refuse(None, NOT_FOUND)

    async def _settle(self, target: Target) -> None:
        job = target.known.job.address
        try:
            reason = await self._why_not(target)
        except (NotConfirmed, InfrastructureError):
            raise
        except JobsError as error:
            reason = str(error)[:_LONGEST_REASON]
        if reason is None:
            self.settled.done += 1
        else:
            self.settled.refuse(job, reason)
        self.pending.discard(target.place.first_seq)

    async def _why_not(self, target: Target) -> str | None:
        """Changes the job. None: it is changed."""
        known, change, job = target.known, self._change, target.known.job.address
        if change.is_meant(known.job, known.up_to, self._operation.bound):
            # The projection has no secrets: a payload with some is read from the log.
            outcome = await self._actions.carry_out(
                change.plan,
                job,
                self._order,
                legal_from=change.legal_from,
                known=None if known.job.run.secrets else known,
            )
        else:
            outcome = NotLegal(known.job, (), raced=True)
        match outcome:
            case Done(head):
                self.settled.last_sequence = max(self.settled.last_sequence, head.sequence)
                return None
            case NoSuchJob():
                return NOT_FOUND
            case NotLegal():
                return (
                    None
                    if await self._actions.did(job, change.kind, self._order)
                    else (self._moved(outcome.job))
                )

    def _moved(self, job: Job) -> str:
        if job.state in self._change.legal_from:
            return "ran again meanwhile"
        return f"already {job.state.value}"
