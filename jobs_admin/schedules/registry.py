"""The schedules that this admin runtime knows: a copy of their records that follows each change.

There may be many thousands, so lists and the search for overdue ones do not read them again.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import aclosing
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final

from jobs_admin.api.errors import SchedulesUnavailable
from trellis_jobs.errors import InfrastructureMissing, NotPermitted
from trellis_jobs.jetstream.control.record_feed import ReadingBegins
from trellis_jobs.model.schedules.firing import waits_since

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from trellis_jobs.jetstream.schedules.records import StoredSchedule
    from trellis_jobs.jetstream.schedules.schedule_feed import ScheduleChange, ScheduleFeed
    from trellis_jobs.model.schedules.address import ScheduleAddress

log = logging.getLogger(__name__)

_RETRY_DELAY: Final = 10.0
_TIMEOUT: Final = 3.0
_CHUNK: Final = 100
# All records are read again this often: the server does not say which an operator has purged.
_REFRESH_INTERVAL: Final = 600.0


@dataclass(frozen=True)
class KnownSchedule:
    address: ScheduleAddress
    stored: StoredSchedule

    @cached_property
    def waits_since(self) -> datetime | None:
        """Computed once for each change of the record, because ticks are costly to compute."""
        record, stored_at = self.stored.record, self.stored.stored_at
        if record is None or stored_at is None:
            return None
        return waits_since(record, stored_at)

    def is_overdue(self, due_before: datetime) -> bool:
        """Whether a process could have fired the schedule by then, and none has."""
        stored_at = self.stored.stored_at
        if stored_at is None or stored_at > due_before:
            return False
        return self.waits_since is not None and self.waits_since <= due_before


class ScheduleRegistry:
    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._known: dict[ScheduleAddress, KnownSchedule] = {}
        # The same, or the records of a reading that has not come to its end.
        self._reading = self._known
        self._position = self._read_until = 0
        self._is_complete = False
        self._problem: str | None = None
        self._changed = asyncio.Event()

    @property
    def is_complete(self) -> bool:
        """Whether all records that exist have been read."""
        return self._is_complete

    async def run(self, feed: ScheduleFeed) -> None:
        """Keeps the registry current."""
        while True:
            try:
                await self._read(feed)
            except (InfrastructureMissing, NotPermitted) as error:
                if self._problem is None:
                    log.warning(
                        "the records of schedules cannot be read, so lost alarms of schedules are "
                        "not repaired: %s",
                        error,
                        extra={"error": str(error)},
                    )
                self._problem = str(error)
                await asyncio.sleep(_RETRY_DELAY)

    async def _read(self, feed: ScheduleFeed) -> None:
        """Returns when it is time to read all records again."""
        began = self._monotonic()
        async with aclosing(feed.changes()) as changes:
            async for change in changes:
                self.apply(change)
                if change is None and self._monotonic() - began > _REFRESH_INTERVAL:
                    return

    def apply(self, change: ScheduleChange | ReadingBegins | None) -> None:
        """Until a reading comes to its end, the registry has the records of the last one."""
        if isinstance(change, ReadingBegins):
            self._reading, self._read_until = {}, 0
            return
        if change is None:
            self._known, self._is_complete, self._problem = self._reading, True, None
        else:
            self._take(change)
        if self._known is self._reading:
            self._position = self._read_until
            self._changed.set()
            self._changed = asyncio.Event()

    def _take(self, change: ScheduleChange) -> None:
        self._read_until = change.stored.revision
        if change.stored.exists:
            self._reading[change.address] = KnownSchedule(change.address, change.stored)
        else:
            self._reading.pop(change.address, None)

    async def until(self, position: int) -> None:
        """Waits until all changes up to this sequence are known. Raises SchedulesUnavailable."""
        try:
            async with asyncio.timeout(_TIMEOUT):
                while not self._is_complete or self._position < position:
                    await self._changed.wait()
        except TimeoutError:
            raise SchedulesUnavailable(self._problem or "the server is slow") from None

    def select(
        self, service: str | None = None, job_type: str | None = None
    ) -> list[KnownSchedule]:
        """The schedules of a service or a queue, ordered by service, queue and name."""
        chosen = [
            address
            for address in self._known
            if service in (None, address.service) and job_type in (None, address.job_type)
        ]
        return [self._known[address] for address in sorted(chosen, key=_order)]

    async def overdue(self, due_before: datetime) -> list[ScheduleAddress]:
        """The schedules that no process has fired although they were due by then, in order.

        Other tasks run in between, because the ticks of changed schedules have to be computed.
        """
        found: list[ScheduleAddress] = []
        known = list(self._known.values())
        for begin in range(0, len(known), _CHUNK):
            part = known[begin : begin + _CHUNK]
            found += [each.address for each in part if each.is_overdue(due_before)]
            await asyncio.sleep(0)
        return sorted(found, key=str)


def _order(address: ScheduleAddress) -> tuple[str, str, str]:
    return address.service, address.job_type, address.schedule
