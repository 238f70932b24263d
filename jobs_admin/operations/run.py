"""Runs one operation that this daemon owns, from where its record stands to its end."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from jobs_admin.api.views.operations import OperationFilter, OperationState, OperationVerb
from jobs_admin.operations import operation as moves
from jobs_admin.operations.operation import Operation, Progress
from jobs_admin.operations.pace import Pace
from jobs_admin.operations.page_work import PageWork
from jobs_admin.operations.verbs import CHANGES
from jobs_admin.reads.targets import load_targets, targets
from trellis_jobs.errors import JobsError
from trellis_jobs.jetstream.client.connection import ConnectionLost, NoResponders

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from jobs_admin.actions.job_actions import Actions
    from jobs_admin.api.job_filter import JobFilter
    from jobs_admin.operations.records import OperationRecords, Stored
    from jobs_admin.reads.read_your_writes import ProjectionProgress
    from jobs_admin.reads.readers import Readers

log = logging.getLogger(__name__)

PAGE_SIZE: Final = 1_000
PROJECTION_TIMEOUT: Final = 5.0
OUTAGES: Final = (JobsError, ConnectionLost, NoResponders)


@dataclass(frozen=True, slots=True)
class RunContext:
    """The dependencies of a run; `write_interval` is how often it writes its record, in s."""

    records: OperationRecords
    actions: Actions
    readers: Readers
    progress: ProjectionProgress
    now: Callable[[], datetime]
    write_interval: float


def job_filter(verb: OperationVerb, of: OperationFilter) -> JobFilter:
    """Without states in the filter, the operation changes jobs in every legal state."""
    return of.model_copy(update={"state": of.state or list(CHANGES[verb].states)})


class Run:
    def __init__(self, claimed: Stored, context: RunContext) -> None:
        self._stored = claimed
        self._context = context
        self._owner = claimed.operation.owner
        self._cursor = claimed.operation.cursor
        self._stop = asyncio.Event()
        self._writing = asyncio.Lock()
        self._is_lost = False
        self._outage: Exception | None = None
        operation = claimed.operation
        self._work = PageWork(operation, context.actions, Pace(operation.rate), self._stop)
        self._work.pending.update(operation.page)

    @property
    def operation(self) -> Operation:
        return self._stored.operation

    async def execute(self) -> None:
        """Return when the operation has ended, or another daemon has taken it over.

        Raises outages; then the operation can be claimed and continued later.
        """
        heartbeat = asyncio.create_task(self._write_periodically())
        try:
            await self._context.progress.wait_for(self.operation.bound)
            await self._finish_previous_page()
            while not self._stop.is_set():
                if not await self._next_page():
                    break
        finally:
            heartbeat.cancel()
            await asyncio.gather(heartbeat, return_exceptions=True)
        if self._outage is not None:
            raise self._outage
        await self._until_shown()
        await self._write(moves.finish)

    async def release(self) -> None:
        await self._write(moves.release)

    async def fail(self, error: str) -> None:
        await self._write(lambda operation, now: moves.fail(operation, error, now))

    async def _until_shown(self) -> None:
        """Wait until the projection shows the changes, unless it is far behind."""
        with suppress(TimeoutError):
            async with asyncio.timeout(PROJECTION_TIMEOUT):
                await self._context.progress.wait_for(self._work.settled.last_sequence)

    async def _finish_previous_page(self) -> None:
        """Settle the jobs that an earlier owner took; it may have changed some of them."""
        while self._work.pending and not self._stop.is_set():
            some = sorted(self._work.pending, reverse=True)
            found = await load_targets(self._context.readers, some)
            numbers = {target.cursor.first_seq for target in found}
            # Jobs before the last one that was found, and that were not found, are gone.
            last = min(numbers, default=0)
            self._work.drop_missing(
                number for number in some if number > last and number not in numbers
            )
            await self._work.do(found)

    async def _next_page(self) -> bool:
        """Return False when there are no more jobs."""
        operation = self.operation
        found = await targets(
            self._context.readers,
            job_filter(operation.verb, operation.filter),
            before=self._cursor,
            limit=self._page_size(),
        )
        if not found:
            return False
        change, cursor = CHANGES[operation.verb], found[-1].cursor
        included = [
            target
            for target in found
            if change.is_included(target.known.job, target.known.up_to, operation.bound)
        ]
        self._work.pending.update(target.cursor.first_seq for target in included)
        self._cursor = cursor
        await self._write()
        await self._work.do(included)
        return True

    def _page_size(self) -> int:
        """With a rate limit, as many jobs as take a second, so that a stop takes effect soon."""
        rate = self.operation.rate
        return PAGE_SIZE if rate is None else max(1, min(PAGE_SIZE, round(rate)))

    async def _write_periodically(self) -> None:
        """Keep the lease, show the progress, and notice a requested stop."""
        try:
            while True:
                await asyncio.sleep(self._context.write_interval)
                await self._write()
        except OUTAGES as error:
            self._outage = error
            self._stop.set()

    async def _write(self, move: Callable[[Operation, datetime], Operation] | None = None) -> None:
        """Write the progress and apply the move; do nothing if another daemon took over."""
        async with self._writing:
            if self._is_lost:
                return
            now, progress = self._context.now(), self._progress()

            def advanced(operation: Operation) -> Operation | None:
                if operation.owner != self._owner:
                    return None
                further = moves.advance(operation, progress, now)
                return further if move is None else move(further, now)

            written = await self._context.records.change(self._stored, advanced)
            if written is None:
                self._is_lost = True
                self._stop.set()
                log.warning(
                    "operation %s was taken over by another admin runtime", self.operation.id
                )
                return
            self._stored = written
            if written.operation.state is OperationState.STOPPING:
                self._stop.set()

    def _progress(self) -> Progress:
        """Return what is settled and what is pending, at one moment."""
        settled, pending = self._work.settled, tuple(sorted(self._work.pending))
        return Progress(
            cursor=self._cursor,
            page=pending,
            done=settled.done,
            refused=dict(settled.refused),
            refusals=tuple(settled.refusals),
        )
