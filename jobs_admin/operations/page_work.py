"""Changes the jobs of one page: concurrently, at a limited rate, each at most once.

The projection's row guards the append. If the job has changed since, the server refuses, and only
then is its history read. If an earlier owner of the operation changed a job and died before it
could record that, the job's newest event has the operation's id, and the job counts as done.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import TYPE_CHECKING, Final

from jobs_admin.actions.job_actions import ActionRequest, Done, NoSuchJob, NotLegal
from jobs_admin.api.views.operations import RefusalView
from jobs_admin.operations.operation import MAX_EXAMPLES
from jobs_admin.operations.verbs import CHANGES
from trellis_jobs.contract.topology import is_alarms_stream
from trellis_jobs.errors import (
    DeadlineInvalid,
    InfrastructureError,
    JobsError,
    NotConfirmed,
    StreamMissing,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from jobs_admin.actions.job_actions import Actions
    from jobs_admin.operations.operation import Operation
    from jobs_admin.operations.pace import Pace
    from jobs_admin.reads.targets import Target
    from trellis_jobs.model.identity import JobAddress
    from trellis_jobs.model.job import Job

MAX_CONCURRENT: Final = 200
NOT_FOUND: Final = "not found"
PAST_DEADLINE: Final = "would expire before that time"
# Error messages may name their job, and all reasons are in one record, so their number is limited.
MAX_REASONS: Final = 20
OTHER_REASONS: Final = "other reasons"
_MAX_REASON_LENGTH: Final = 200


class Settled:
    """The results of the operation so far, with some examples of refused jobs.

    `last_sequence` is that of the newest event that this process appended.
    """

    def __init__(self, before: Operation) -> None:
        self.done = before.done
        self.last_sequence = 0
        self.refused = Counter(before.refused)
        self.refusals = list(before.refusals)

    def refuse(self, job: JobAddress | None, reason: str) -> None:
        is_counted = reason in self.refused or len(self.refused) < MAX_REASONS
        self.refused[reason if is_counted else OTHER_REASONS] += 1
        if job is not None and len(self.refusals) < MAX_EXAMPLES:
            self.refusals.append(
                RefusalView(id=job.job_id, service=job.service, type=job.job_type, reason=reason)
            )


class PageWork:
    """`pending` are the numbers of jobs that were taken and are not settled."""

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
        self._action = ActionRequest(
            by=operation.by,
            reason=operation.reason,
            request=operation.id,
            run_at=operation.run_at,
        )
        self._actions = actions
        self._pace = pace
        self._stop = stop

    async def do(self, targets: Iterable[Target]) -> None:
        """Change the jobs; return when each is settled or a stop was requested.

        An outage is raised after all started changes have ended; their jobs stay pending.
        """
        free = asyncio.Semaphore(MAX_CONCURRENT)
        begun: list[asyncio.Task[None]] = []

        async def settle(target: Target) -> None:
            try:
                await self._settle(target)
            finally:
                free.release()

        try:
            for target in targets:
                await self._pace.wait_for_next(self._stop)
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

    def drop_missing(self, numbers: Iterable[int]) -> None:
        """Refuse jobs that were taken and are no longer in the projection."""
        for number in numbers:
            self.pending.discard(number)
            self.settled.refuse(None, NOT_FOUND)

    async def _settle(self, target: Target) -> None:
        job = target.known.job.address
        try:
            reason = await self._change_job(target)
        except StreamMissing as missing:
            if not is_alarms_stream(missing.stream):
                raise
            reason = str(missing)[:_MAX_REASON_LENGTH]  # only the jobs of one service cannot move
        except (NotConfirmed, InfrastructureError):
            raise
        except DeadlineInvalid:
            reason = PAST_DEADLINE
        except JobsError as error:
            reason = str(error)[:_MAX_REASON_LENGTH]
        if reason is None:
            self.settled.done += 1
        else:
            self.settled.refuse(job, reason)
        self.pending.discard(target.cursor.first_seq)

    async def _change_job(self, target: Target) -> str | None:
        """Change the job; return None if it was changed, otherwise why not."""
        known, change, job = target.known, self._change, target.known.job.address
        if change.is_included(known.job, known.up_to, self._operation.bound):
            # The projection has no secrets, so a job whose payload has some is read from the log.
            outcome = await self._actions.carry_out(
                change.plan,
                job,
                self._action,
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
                    if await self._actions.has_done(job, change.kind, self._action)
                    else (self._moved(outcome.job))
                )

    def _moved(self, job: Job) -> str:
        if job.state in self._change.legal_from:
            return "started again in the meantime"
        return f"already {job.state.value}"
