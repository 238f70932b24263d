"""Answers that are at least as new as what was asked for (design D17)."""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

from jobs_admin.api.error_envelope import Fault, Invalid
from jobs_admin.api.errors import Issue
from trellis_jobs.contract.topology import LOG
from trellis_jobs.errors import JobsError
from trellis_jobs.jetstream.client.stream_info import next_in_log, stream_size

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trellis_jobs.jetstream.client.connection import Connection

POSITION_TIMEOUT: Final = 5.0
_A_MOMENT: Final = 1.0


class ProjectionProgress(Protocol):
    """How far the projection is: one's own projector, or another's as its file says."""

    @property
    def position(self) -> int: ...

    async def wait_for(self, sequence: int) -> None:
        """Returns once the projection has taken in everything up to there."""


@dataclass(frozen=True, slots=True)
class LogProgress:
    """Nobody waits for it beyond the log's end: what is not there will not come."""

    progress: ProjectionProgress
    connection: Connection

    @property
    def position(self) -> int:
        return self.progress.position

    async def wait_for(self, sequence: int) -> None:
        if sequence > self.position:
            end = await self._end()
            if sequence > end:
                problem = f"the log ends at {end}, so there is no {sequence} to wait for"
                raise Invalid(problem, [Issue("/minSeq", problem)])
        await self.progress.wait_for(sequence)

    async def wait_for_end(self) -> int | None:
        """Of the log as it is now; else where that is, if it was not reached within a moment.

        At its end there may be gaps, so that the last sequence is never reached.
        """
        if await next_in_log(self.connection, self.position) is None:
            return None
        end = await self._end()
        try:
            async with asyncio.timeout(_A_MOMENT):
                await self.progress.wait_for(end)
        except TimeoutError:
            missed = await next_in_log(self.connection, self.position)
            return end if missed is not None and missed.sequence <= end else None
        return None

    async def is_caught_up(self) -> bool:
        """Whether the projection has, within a moment, all that the log holds at this call."""
        return await self.wait_for_end() is None

    async def _end(self) -> int:
        size = await stream_size(self.connection, LOG)
        return size.last_sequence if size else 0


async def wait_for_position(progress: ProjectionProgress, sequence: int) -> None:
    """Returns once the projection has taken in the log up to there."""
    try:
        async with asyncio.timeout(POSITION_TIMEOUT):
            await progress.wait_for(sequence)
    except TimeoutError:
        raise Fault(
            f"the projection is at {progress.position}, and was not at {sequence} after "
            f"{POSITION_TIMEOUT:g} s",
            seq=sequence,
            position=progress.position,
        ) from None


@contextmanager
def mention_recorded_event(sequence: int) -> Iterator[None]:
    """Whatever is in the way of it, who changed something learns that it is in the log.

    0: a job that is not in the log, so that nothing could be recorded.
    """
    try:
        yield
    except (Fault, JobsError) as trouble:
        fields = trouble.fields if isinstance(trouble, Fault) else {}
        where = f"it is in the log as {sequence}" if sequence else "the log has no such job"
        raise Fault(
            f"{trouble}; what was asked for is done: {where}", **{**fields, "seq": sequence}
        ) from None
