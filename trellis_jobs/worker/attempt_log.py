"""What one attempt says in the log, one thing after the other: each guarded by the one before."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from trellis_jobs.jetstream.log.event_log import Lost
from trellis_jobs.model import events as e
from trellis_jobs.model.job_status import Head
from trellis_jobs.model.notes import NOTHING_NOTED, Notes
from trellis_jobs.worker.pending_notes import SPACING, NotePad

if TYPE_CHECKING:
    from collections.abc import Callable

    from trellis_jobs.contract.declaration import JobType
    from trellis_jobs.model.notes import LogLevel, Progress
    from trellis_jobs.model.settlement import AttemptContext, Settlement
    from trellis_jobs.worker.worker_context import WorkerContext


class AttemptLog:
    """Silent once it has said the outcome; `lost` is told when the job turns out another's."""

    __slots__ = (
        "_lost",
        "_notes",
        "_pumping",
        "_queue",
        "_speaking",
        "_terms",
        "_tools",
        "head",
        "is_silent",
    )

    def __init__(
        self,
        claimed: Head,
        terms: AttemptContext,
        queue: JobType[Any, Any],
        tools: WorkerContext,
        lost: Callable[[Head | None], None],
    ) -> None:
        self.head = claimed
        self.is_silent = False
        self._terms = terms
        self._queue = queue
        self._tools = tools
        self._lost = lost
        self._speaking = asyncio.Lock()
        self._notes: NotePad | None = None
        self._pumping = False

    def progress(self, progress: Progress) -> None:
        if self._queue.progress:
            self._pad.progress(progress)
            self._start_pump()

    def line(self, level: LogLevel, message: str) -> None:
        if self._queue.logs:
            self._pad.line(self._tools.environment.now(), level, message)
            self._start_pump()

    async def heartbeat(self) -> bool:
        """True when the log took it: the job is still this attempt's."""
        async with self._speaking:
            if self.is_silent:
                return False
            return isinstance(await self._say(e.Heartbeat(**self._said())), Head)

    async def settle(
        self, decide: Callable[[Notes], Settlement]
    ) -> tuple[Settlement, Head | Lost] | None:
        """Say the outcome, with the notes that were still open; None if it was said already."""
        async with self._speaking:
            if self.is_silent:
                return None
            notes = NOTHING_NOTED if self._notes is None else self._notes.take()
            if self._queue.shared:
                # Other runtimes do not look for notes in the outcome, where ADR 1 puts them.
                await self._say_notes(notes)
                notes = NOTHING_NOTED
            settlement = decide(notes)
            appended: Head | Lost = self.head
            if settlement.event is not None:
                appended = await self._say(settlement.event)
            self.is_silent = True
            # Else the two would hold each other, and wait for the garbage collector.
            self._lost = _tell_nobody
            return settlement, appended

    @property
    def _pad(self) -> NotePad:
        """Most handlers note nothing."""
        if self._notes is None:
            self._notes = NotePad()
        return self._notes

    def _start_pump(self) -> None:
        if not self._pumping and not self.is_silent:
            self._pumping = True
            self._tools.background.spawn(self._pump_notes())

    async def _pump_notes(self) -> None:
        try:
            while not self._pad.is_empty and not self.is_silent:
                async with self._speaking:
                    if not self.is_silent:
                        await self._say_notes(self._pad.take())
                await asyncio.sleep(SPACING)
        finally:
            self._pumping = False

    async def _say(self, event: e.Event) -> Head | Lost:
        with self._tools.telemetry.appending(event):
            answer = await self._tools.events.append(self.head, event, shared=self._queue.shared)
        if isinstance(answer, Lost):
            self._lost(answer.head)
        else:
            self.head = answer
        return answer

    async def _say_notes(self, notes: Notes) -> None:
        """An event for each: readers that know seed 003 look for progress in `progress` only."""
        if notes.progress is not None:
            await self._say(e.Progressed(**self._said(), notes=Notes(notes.progress)))
        if notes.lines:
            await self._say(e.Logged(**self._said(), notes=Notes(None, notes.lines)))

    def _said(self) -> e.AttemptFields:
        return self._terms.event_fields(self._tools.environment.now())


def _tell_nobody(_: Head | None) -> None:
    """Nothing more is said, so nothing more can be lost."""
