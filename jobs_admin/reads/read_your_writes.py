"""Read-your-writes: waits until the projection has reached a position (design D17)."""

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
_END_TIMEOUT: Final = 1.0


class ProjectionProgress(Protocol):
    """The position of the projection: from our own projector, or from the file of another."""

    @property
    def position(self) -> int: ...

    async def wait_for(self, sequence: int) -> None:
        """Wait until the projection has reached this sequence."""


@dataclass(frozen=True, slots=True)
class LogProgress:
    """The same, but refuses to wait for a sequence beyond the end of the log."""

    progress: ProjectionProgress
    connection: Connection

    @property
    def position(self) -> int:
        return self.progress.position

    async def wait_for(self, sequence: int) -> None:
        if sequence > self.position:
            end = await self._end()
            if sequence > end:
                problem = f"the log ends at {end}, so sequence {sequence} does not exist"
                raise Invalid(problem, [Issue("/minSeq", problem)])
        await self.progress.wait_for(sequence)

    async def wait_for_end(self) -> int | None:
        """Wait briefly for the log's current end; return its sequence if it was not reached.

        There may be gaps at the end, so that the last sequence is never reached.
        """
        if await next_in_log(self.connection, self.position) is None:
            return None
        end = await self._end()
        try:
            async with asyncio.timeout(_END_TIMEOUT):
                await self.progress.wait_for(end)
        except TimeoutError:
            missed = await next_in_log(self.connection, self.position)
            return end if missed is not None and missed.sequence <= end else None
        return None

    async def is_caught_up(self) -> bool:
        """Whether the projection reaches the log's current end within a second."""
        return await self.wait_for_end() is None

    async def _end(self) -> int:
        size = await stream_size(self.connection, LOG)
        return size.last_sequence if size else 0


async def wait_for_position(progress: ProjectionProgress, sequence: int) -> None:
    """Wait until the projection has reached this sequence; refuse the request after a timeout."""
    try:
        async with asyncio.timeout(POSITION_TIMEOUT):
            await progress.wait_for(sequence)
    except TimeoutError:
        raise Fault(
            f"the projection is at {progress.position} and did not reach {sequence} within "
            f"{POSITION_TIMEOUT:g} s",
            seq=sequence,
            position=progress.position,
        ) from None


@contextmanager
def mention_recorded_event(sequence: int) -> Iterator[None]:
    """Add to errors within the block that the change was recorded.

    `sequence` is 0 for a job that is not in the log, so that no event was recorded.
    """
    try:
        yield
    except (Fault, JobsError) as trouble:
        fields = trouble.fields if isinstance(trouble, Fault) else {}
        where = f"its event has sequence {sequence}" if sequence else "the log has no such job"
        raise Fault(
            f"{trouble}; but the change was made: {where}", **{**fields, "seq": sequence}
        ) from None
