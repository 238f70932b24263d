"""Reads the records of schedules while a campaign runs, and brings them to rest in the end."""

from __future__ import annotations

from contextlib import aclosing, suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from tests.chaos.observed import ScheduleVersion
from tests.support.facts import until
from tests.support.lab import Probe
from trellis_jobs.environment import utc_now
from trellis_jobs.errors import JobsError
from trellis_jobs.jetstream.alarms.alarms import Alarms
from trellis_jobs.jetstream.client.connection import Connection
from trellis_jobs.jetstream.schedules.records import ScheduleRecords
from trellis_jobs.jetstream.schedules.schedule_feed import ScheduleChange, ScheduleFeed
from trellis_jobs.jetstream.schedules.schedules import Schedules
from trellis_jobs.model.schedules.address import ScheduleAddress
from trellis_jobs.model.schedules.changes import pause
from trellis_jobs.model.schedules.firing import next_fire_time
from trellis_jobs.model.schedules.record import Decision, Pause, ScheduleRecord

# A schedule with a tick that is due for longer has no alarm.
_LATE: Final = timedelta(seconds=3)


@dataclass
class ScheduleWitness:
    """The server keeps the newest version of a record only, so this may not have all of them."""

    versions: dict[int, ScheduleVersion] = field(default_factory=dict)

    async def watch(self, connection: Connection) -> None:
        async with aclosing(ScheduleFeed(connection).changes()) as changes:
            async for change in changes:
                if isinstance(change, ScheduleChange) and change.stored.record is not None:
                    revision = change.stored.revision
                    self.versions[revision] = ScheduleVersion(revision, change.stored.record)


@dataclass
class ScheduleEnding:
    """Waits after the faults until all schedules fire again, and then stops them by a pause.

    `late` are those that did not fire in time.
    """

    raw: Probe
    late: list[ScheduleAddress] = field(default_factory=list)

    async def records(self) -> list[ScheduleRecord]:
        return await self._records().all()

    async def pause_all(self, deadline: float) -> None:
        with suppress(AssertionError):  # which of them is late is for the checker to say
            await until(self._are_current, deadline=deadline)
        await until(self._pause_each, "all schedules are paused", deadline=deadline)

    async def are_finished(self) -> bool:
        return not any(record.unfinished for record in await self.records())

    async def _are_current(self) -> bool:
        try:
            records = await self.records()
        except JobsError:  # the servers have not found together yet
            return False
        self.late = [record.address for record in records if _is_late(record, utc_now())]
        return not self.late

    async def _pause_each(self) -> bool:
        alarms = Alarms(self.raw.connection, self.raw.features, utc_now)
        schedules = Schedules(self._records(), alarms)
        try:
            for record in await self.records():
                await schedules.change(record.address, _paused)
        except JobsError:
            return False
        return True

    def _records(self) -> ScheduleRecords:
        supports_ttl = self.raw.features.message_ttl
        return ScheduleRecords(self.raw.connection, supports_ttl=supports_ttl)


def _is_late(record: ScheduleRecord, now: datetime) -> bool:
    due = next_fire_time(record)
    return due is not None and due < now - _LATE


def _paused(record: ScheduleRecord | None) -> Decision | None:
    if record is None or (record.paused is not None and record.paused.until is None):
        return None
    return pause(record, Pause(since=utc_now(), reason="the campaign is over"))
