"""Applies batches of the log to a projection, with a cache of recently written jobs."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from jobs_admin.priority import CpuTime, measure_cpu
from jobs_admin.projection.batch import project, read, refold
from jobs_admin.projection.known_rows import KnownRows
from jobs_admin.projection.writer import Writer

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence
    from datetime import datetime

    from jobs_admin.projection.store import Projection
    from trellis_jobs.jetstream.log.feed import LogMessage, LogPosition
    from trellis_jobs.model.identity import JobAddress

    # The messages of a job after one sequence and up to another at least, in their order.
    ReadJob = Callable[[JobAddress, int, int], Awaitable[list[LogMessage]]]

MAX_BYTES: Final = 64 * 1024 * 1024


class Ingest:
    """Used by one writer, whose rows it caches. After an error, create a new one.

    A batch and its position are one transaction: after a crash the next reader continues exactly
    where the projection ends. `max_bytes` limits the cached rows, by their size in the file, and
    separately the rows that a batch loads.
    """

    def __init__(
        self, projection: Projection, position: LogPosition, *, max_bytes: int = MAX_BYTES
    ) -> None:
        self.position = position
        self._projection = projection
        self._rows = KnownRows(max_bytes)
        self._writing = asyncio.Lock()

    @property
    def bytes_known(self) -> int:
        return self._rows.bytes

    async def apply(self, batch: list[LogMessage]) -> CpuTime:
        async with self._writing:
            return await self._projection.do(self._take_in_measured, batch)

    async def complete(self, sequence: int) -> None:
        """Record that everything up to `sequence` is applied, even if the last ones are gone."""
        if self.position.sequence < sequence:
            self.position = replace(self.position, sequence=sequence, stored_ns=0)
        await self._projection.do(Writer.set_position, self.position)

    async def forget(
        self, up_to: Mapping[JobAddress, int], read_job: ReadJob, now: datetime
    ) -> None:
        """Remove jobs that were purged from the log up to these sequences, in one transaction.

        The row of a job that continued is made again from what remains in the log. `read_job` must
        return at least what the row contains, because a replica may be behind.
        """
        async with self._writing:
            for address in up_to:
                self._rows.pop(address, None)
            rows = await self._projection.do(Writer.load, up_to.keys())
            left = [
                message
                for job, row in rows.items()
                if row.last_sequence > up_to[job]
                for message in await read_job(job, up_to[job], row.last_sequence)
            ]
            taken_in = [message for message in left if message.sequence <= self.position.sequence]
            if rows:
                again = refold(taken_in, self.position)
                await self._projection.do(Writer.forget, rows.values(), up_to, again, now)

    async def forget_undecodable(self, sequences: Sequence[int]) -> None:
        async with self._writing:
            await self._projection.do(Writer.forget_undecodable, sequences)

    def _take_in_measured(self, writer: Writer, batch: list[LogMessage]) -> CpuTime:
        _, used = measure_cpu(lambda: self._take_in(writer, batch))
        return used

    def _take_in(self, writer: Writer, batch: list[LogMessage]) -> None:
        """Use several transactions when the rows of the batch's jobs are too large for one."""
        while batch:
            readings = read(batch)
            rows = self._rows.of(readings.events)
            unknown = [job for job in readings.events if job not in rows]
            loaded, unread = writer.load_some(unknown, self._rows.max_bytes)
            rest: list[LogMessage] = []
            if unread:
                first, _ = readings.events[unread[0]][0]
                rest = [message for message in batch if message.sequence >= first.sequence]
                readings = read(batch[: -len(rest)])
            changes = project(readings, rows | loaded)
            writer.apply(changes)
            self._rows.keep(changes.jobs)
            self.position = replace(changes.position, created=self.position.created)
            batch = rest
