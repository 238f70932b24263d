"""Changes schedules: sets the alarm for the next tick, then writes the record.

The alarm comes first, so that it is never later than the record says (docs/adr/0016). If the
process dies in between, the alarm comes early, and the worker process that receives it finds
nothing to do and sets the next one.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

from trellis_jobs.errors import NotConfirmed, ScheduleRefused
from trellis_jobs.jetstream.client.pub_ack import Refused
from trellis_jobs.model.subjects import AlarmAddress, AlarmFamily

if TYPE_CHECKING:
    from collections.abc import Callable

    from trellis_jobs.jetstream.alarms.alarms import Alarms
    from trellis_jobs.jetstream.schedules.records import ScheduleRecords, StoredSchedule
    from trellis_jobs.model.schedules.address import ScheduleAddress
    from trellis_jobs.model.schedules.record import Decision, ScheduleRecord

    Move: TypeAlias = Callable[[ScheduleRecord | None], Decision | None]

# An alarm without its record is dropped after EVENT_MAY_FOLLOW, so a writer gives up before.
_WRITE_TIMEOUT: Final = 30.0


@dataclass(frozen=True, slots=True)
class Schedules:
    """`timeout` limits each change: its alarm and its record together, in seconds."""

    records: ScheduleRecords
    alarms: Alarms
    timeout: float = _WRITE_TIMEOUT

    async def change(self, address: ScheduleAddress, move: Move) -> ScheduleRecord | None:
        """Applies a move, again whenever another process has written in between.

        Returns the record after it. A move that returns None changes nothing. Raises
        ScheduleRefused if the record cannot be read: it may be that of a newer version.
        """
        stored = await self.records.find(address)
        while True:
            if stored.problem is not None:
                raise ScheduleRefused(
                    str(address),
                    f"its record cannot be read ({stored.problem}); a newer version may have "
                    "written it: delete the schedule to replace it",
                )
            decision = move(stored.record)
            if decision is None:
                return stored.record
            written = await self.write(decision, stored)
            if not isinstance(written, Refused):
                return decision.record
            stored = await self.records.find_after(written, address)

    async def write(self, decision: Decision, stored: StoredSchedule) -> int | Refused:
        """Returns the new revision, or a conflict. An equal record is not written again.

        Raises NotConfirmed if the server does not confirm both in time.
        """
        try:
            async with asyncio.timeout(self.timeout):
                return await self._write(decision, stored)
        except TimeoutError:
            what = f"a change of schedule {decision.record.address}"
            raise NotConfirmed(what, self.timeout) from None

    async def _write(self, decision: Decision, stored: StoredSchedule) -> int | Refused:
        record = decision.record
        if decision.alarm_at is not None:
            await self.alarms.set(alarm_of(record.address), decision.alarm_at)
        if record == stored.record:
            return stored.revision
        return await self.records.write(record, stored.revision)

    async def delete(
        self, address: ScheduleAddress, check: Callable[[ScheduleRecord], object] | None = None
    ) -> bool:
        """Returns False if there is no such schedule. Jobs that exist are not changed.

        `check` may raise an error, if the schedule must not be deleted. Its alarm is left: it finds
        no schedule, or one that was made again in the meantime.
        """
        stored = await self.records.find(address)
        while stored.exists:
            if check is not None and stored.record is not None:
                check(stored.record)
            deleted = await self.records.delete(address, stored.revision)
            if not isinstance(deleted, Refused):
                return True
            stored = await self.records.find_after(deleted, address)
        return False


def alarm_of(address: ScheduleAddress) -> AlarmAddress:
    return AlarmAddress(address.service, AlarmFamily.SCHEDULE, address.job_type, address.schedule)
