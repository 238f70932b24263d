"""Takes the log in, batch by batch, and knows how far it is."""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from typing import TYPE_CHECKING, Final

from jobs_admin.projection.batch import addresses, project, read

if TYPE_CHECKING:
    from jobs_admin.projection.batch import JobRow
    from jobs_admin.projection.store import Projection
    from trellis_jobs.jetstream.log_feed import LogFeed, LogMessage
    from trellis_jobs.model.identity import JobAddress

log = logging.getLogger(__name__)

_ROWS_REMEMBERED: Final = 20_000


class Projector:
    """`position` is how far the projection is, `behind` how many messages were still to come.

    A batch is one transaction together with its position: after a crash the log is taken up again
    exactly where the projection ends.
    """

    def __init__(self, feed: LogFeed, projection: Projection) -> None:
        self.position = 0
        self.behind: int | None = None
        self.newest_ns = 0
        self._feed = feed
        self._projection = projection
        self._rows: OrderedDict[JobAddress, JobRow] = OrderedDict()
        self._moved = asyncio.Event()
        self._writing = asyncio.Lock()

    async def run(self, *, until: int | None = None) -> None:
        """Without end, or up to a sequence."""
        self._rows.clear()
        self.position = await self._projection.position()
        async for batch in self._feed.batches(self.position):
            await self.take_in(batch)
            if until is not None and self.position >= until:
                return

    async def take_in(self, batch: list[LogMessage]) -> None:
        async with self._writing:
            await self._take_in(batch)

    async def forget(self, address: JobAddress, up_to: int) -> bool:
        """Take a job out that retention took out of the log up to there; False if it went on."""
        async with self._writing:
            self._rows.pop(address, None)
            row = (await self._projection.load([address])).get(address)
            if row is None or row.last_sequence > up_to:
                return row is None
            await self._projection.forget(row)
            return True

    async def reached(self, sequence: int) -> None:
        """Returns once the projection has taken in everything up to there (design D17)."""
        while self.position < sequence:
            await self._moved.wait()

    async def _take_in(self, batch: list[LogMessage]) -> None:
        readings = read(batch)
        wanted = addresses(readings)
        unknown = [address for address in wanted if address not in self._rows]
        if unknown:
            self._rows.update(await self._projection.load(unknown))
        changes = project(readings, self._rows)
        await self._projection.apply(changes)
        self._remember(changes.jobs)
        self.position, self.behind = changes.position, batch[-1].pending
        self.newest_ns = batch[-1].stored_ns
        self._announce()

    def _announce(self) -> None:
        self._moved.set()
        self._moved = asyncio.Event()

    def _remember(self, rows: dict[JobAddress, JobRow]) -> None:
        for address, row in rows.items():
            self._rows[address] = row
            self._rows.move_to_end(address)
        while len(self._rows) > _ROWS_REMEMBERED:
            self._rows.popitem(last=False)
