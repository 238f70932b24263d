"""The events that one attempt appends, one after the other, each guarded by the one before."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from trellis_jobs.jetstream.log.event_log import Lost
from trellis_jobs.model import events as e
from trellis_jobs.model.job_status import Head
from trellis_jobs.model.notes import NOTHING_NOTED, Notes
from trellis_jobs.worker.pending_notes import FLUSH_INTERVAL, PendingNotes

if TYPE_CHECKING:
    from collections.abc import Callable

    from trellis_jobs.contract.declaration import JobType
    from trellis_jobs.model.notes import LogLevel, Progress
    from trellis_jobs.model.settlement import AttemptContext, Settlement
    from trellis_jobs.worker.worker_context import WorkerContext


class AttemptLog:
    """Appends nothing after the outcome.

    `on_lost` is called when an append shows that the job no longer belongs to this attempt.
    """

    __slots__ = (
        "_attempt_context",
        "_context",
        "_is_flushing",
        "_lock",
        "_notes",
        "_on_lost",
        "_queue",
        "head",
        "is_closed",
    )

    def __init__(
        self,
        claimed: Head,
        attempt_context: AttemptContext,
        queue: JobType[Any, Any],
        context: WorkerContext,
        on_lost: Callable[[Head | None], None],
    ) -> None:
        self.head = claimed
        self.is_closed = False
        self._attempt_context = attempt_context
        self._queue = queue
        self._context = context
        self._on_lost = on_lost
        self._lock = asyncio.Lock()
        self._notes: PendingNotes | None = None
        self._is_flushing = False

    def progress(self, progress: Progress) -> None:
        if self._queue.progress:
            self._pending_notes.progress(progress)
            self._start_flushing()

    def add_line(self, level: LogLevel, message: str) -> None:
        if self._queue.logs:
            self._pending_notes.add_line(self._context.environment.now(), level, message)
            self._start_flushing()

    async def heartbeat(self) -> bool:
        """Returns True when the job still belongs to this attempt."""
        async with self._lock:
            if self.is_closed:
                return False
            return isinstance(await self._append(e.Heartbeat(**self._event_fields())), Head)

    async def settle(
        self, decide: Callable[[Notes], Settlement]
    ) -> tuple[Settlement, Head | Lost] | None:
        """Appends the outcome, with the pending notes. Returns None if that was done before."""
        async with self._lock:
            if self.is_closed:
                return None
            notes = NOTHING_NOTED if self._notes is None else self._notes.take()
            if self._queue.shared:
                # Other runtimes do not read notes from the outcome, where ADR 1 puts them.
                await self._append_notes(notes)
                notes = NOTHING_NOTED
            settlement = decide(notes)
            appended: Head | Lost = self.head
            if settlement.event is not None:
                appended = await self._append(settlement.event)
            self.is_closed = True
            # Breaks the reference cycle with the RunningJob, so that both are freed at once.
            self._on_lost = _ignore
            return settlement, appended

    @property
    def _pending_notes(self) -> PendingNotes:
        """Created at first use, because most handlers note nothing."""
        if self._notes is None:
            self._notes = PendingNotes()
        return self._notes

    def _start_flushing(self) -> None:
        if not self._is_flushing and not self.is_closed:
            self._is_flushing = True
            self._context.background.spawn(self._flush_notes())

    async def _flush_notes(self) -> None:
        try:
            while not self._pending_notes.is_empty and not self.is_closed:
                async with self._lock:
                    if not self.is_closed:
                        await self._append_notes(self._pending_notes.take())
                await asyncio.sleep(FLUSH_INTERVAL)
        finally:
            self._is_flushing = False

    async def _append(self, event: e.Event) -> Head | Lost:
        with self._context.telemetry.appending(event):
            answer = await self._context.events.append(self.head, event, shared=self._queue.shared)
        if isinstance(answer, Lost):
            self._on_lost(answer.head)
        else:
            self.head = answer
        return answer

    async def _append_notes(self, notes: Notes) -> None:
        """Writes one event for each kind: other runtimes read progress only there."""
        if notes.progress is not None:
            await self._append(e.Progressed(**self._event_fields(), notes=Notes(notes.progress)))
        if notes.lines:
            await self._append(e.Logged(**self._event_fields(), notes=Notes(None, notes.lines)))

    def _event_fields(self) -> e.AttemptFields:
        return self._attempt_context.event_fields(self._context.environment.now())


def _ignore(_: Head | None) -> None:
    """After the outcome there is nothing left to stop."""
