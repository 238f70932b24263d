"""One operation that this daemon owns, from where its record is to its end."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from jobs_admin.api.job_filter import JobFilter
from jobs_admin.api.views.operations import OperationFilter, OperationState, OperationVerb
from jobs_admin.operations import operation as moves
from jobs_admin.operations.operation import Operation, Progress
from jobs_admin.operations.pace import Pace
from jobs_admin.operations.page_work import PageWork
from jobs_admin.operations.verbs import CHANGES
from jobs_admin.reads.targets import targets, those
from trellis_jobs.errors import JobsError
from trellis_jobs.jetstream.client.connection import ConnectionLost, NoResponders

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from jobs_admin.actions.job_actions import Actions
    from jobs_admin.operations.records import OperationRecords, Stored
    from jobs_admin.reads.read_your_writes import ProjectionProgress
    from jobs_admin.reads.readers import Readers

log = logging.getLogger(__name__)

PAGE: Final = 1_000
SHOWN_WITHIN: Final = 5.0
OUTAGES: Final = (JobsError, ConnectionLost, NoResponders)


@dataclass(frozen=True, slots=True)
class RunContext:
    """What every run works with; `beat` is how often a record is written, in seconds."""

    records: OperationRecords
    actions: Actions
    readers: Readers
    progress: ProjectionProgress
    now: Callable[[], datetime]
    beat: float


def wanted(verb: OperationVerb, of: OperationFilter) -> JobFilter:
    return JobFilter(
        service=of.service,
        type=of.type,
        states=of.state or CHANGES[verb].states,
        since=of.since,
        until=of.until,
        key=of.key,
        id_prefix=of.id_prefix,
        error=of.error,
        payload=of.payload,
    )


class Run:
    def __init__(self, claimed: Stored, tools: RunContext) -> None:
        self._stored = claimed
        self._tools = tools
        self._owner = claimed.operation.owner
        self._cursor = claimed.operation.cursor
        self._stop = asyncio.Event()
        self._writing = asyncio.Lock()
        self._is_lost = False
        self._trouble: Exception | None = None
        operation = claimed.operation
        self._work = PageWork(operation, tools.actions, Pace(operation.rate), self._stop)
        self._work.pending.update(operation.page)

    @property
    def operation(self) -> Operation:
        return self._stored.operation

    async def go(self) -> None:
        """Returns when it is over, or another daemon has taken it over.

        Raises what is in the way, such as an outage; then it can be claimed and gone on with.
        """
        beating = asyncio.create_task(self._beat())
        try:
            await self._tools.progress.reached(self.operation.bound)
            await self._settle_what_was_taken_up()
            while not self._stop.is_set():
                if not await self._next_page():
                    break
        finally:
            beating.cancel()
            await asyncio.gather(beating, return_exceptions=True)
        if self._trouble is not None:
            raise self._trouble
        await self._until_shown()
        await self._write(moves.finish)

    async def release(self) -> None:
        await self._write(moves.release)

    async def fail(self, error: str) -> None:
        await self._write(lambda operation, now: moves.fail(operation, error, now))

    async def _until_shown(self) -> None:
        """An operation that is over can be seen in the projection, unless that lags far behind."""
        with suppress(TimeoutError):
            async with asyncio.timeout(SHOWN_WITHIN):
                await self._tools.progress.reached(self._work.settled.last_sequence)

    async def _settle_what_was_taken_up(self) -> None:
        """By this operation's owner before us, who may have changed some of them."""
        while self._work.pending and not self._stop.is_set():
            some = sorted(self._work.pending, reverse=True)
            found = await those(self._tools.readers, some)
            numbers = {target.place.first_seq for target in found}
            # Of those up to the last one that was found, the others are gone.
            last = min(numbers, default=0)
            self._work.give_up(number for number in some if number > last and number not in numbers)
            await self._work.do(found)

    async def _next_page(self) -> bool:
        """False when there are no more jobs."""
        operation = self.operation
        found = await targets(
            self._tools.readers,
            wanted(operation.verb, operation.filter),
            before=self._cursor,
            limit=self._page_size(),
        )
        if not found:
            return False
        change, place = CHANGES[operation.verb], found[-1].place
        meant = [
            target
            for target in found
            if change.is_meant(target.known.job, target.known.up_to, operation.bound)
        ]
        self._work.pending.update(target.place.first_seq for target in meant)
        self._cursor = place
        await self._write()
        await self._work.do(meant)
        return True

    def _page_size(self) -> int:
        """Few where it is paced: a page is over in about a second, so it stops and beats soon."""
        rate = self.operation.rate
        return PAGE if rate is None else max(1, min(PAGE, round(rate)))

    async def _beat(self) -> None:
        """So that others see that it is owned, how far it is, and so that a stop is seen."""
        try:
            while True:
                await asyncio.sleep(self._tools.beat)
                await self._write()
        except OUTAGES as error:
            self._trouble = error
            self._stop.set()

    async def _write(self, move: Callable[[Operation, datetime], Operation] | None = None) -> None:
        """Everything that was settled, then the move; nothing once the operation is another's."""
        async with self._writing:
            if self._is_lost:
                return
            now, progress = self._tools.now(), self._progress()

            def advanced(operation: Operation) -> Operation | None:
                if operation.owner != self._owner:
                    return None
                further = moves.advance(operation, progress, now)
                return further if move is None else move(further, now)

            written = await self._tools.records.change(self._stored, advanced)
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
        """What was settled and what is pending, at one moment."""
        settled, pending = self._work.settled, tuple(sorted(self._work.pending))
        return Progress(
            cursor=self._cursor,
            page=pending,
            done=settled.done,
            refused=dict(settled.refused),
            refusals=tuple(settled.refusals),
        )
