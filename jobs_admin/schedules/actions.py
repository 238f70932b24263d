"""Changes that operators make to schedules. Workers of the service create the jobs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from jobs_admin.api.views.schedules import ScheduleOutcome
from jobs_admin.schedules.registry import KnownSchedule
from trellis_jobs.errors import ScheduleDeclared, ScheduleNotFound, ScheduleRefused
from trellis_jobs.jetstream.schedules.records import StoredSchedule
from trellis_jobs.model.schedules import changes
from trellis_jobs.model.schedules.changes import Author, Refused
from trellis_jobs.model.schedules.record import Origin

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from trellis_jobs.jetstream.schedules.schedules import Schedules
    from trellis_jobs.model.schedules.address import ScheduleAddress
    from trellis_jobs.model.schedules.definition import ScheduleDefinition
    from trellis_jobs.model.schedules.record import Decision, Pause, ScheduleRecord


@dataclass(frozen=True, slots=True)
class ScheduleActions:
    """Raises ScheduleNotFound, ScheduleDeclared, ScheduleRefused, and StreamMissing.

    `now` is always the server's time.
    """

    schedules: Schedules

    async def find(self, address: ScheduleAddress) -> KnownSchedule:
        """Also a schedule whose record cannot be read."""
        stored = await self.schedules.records.find(address)
        if not stored.exists:
            raise ScheduleNotFound(str(address))
        return KnownSchedule(address, stored)

    async def put(
        self,
        address: ScheduleAddress,
        definition: ScheduleDefinition,
        *,
        by: str,
        now: datetime,
    ) -> tuple[KnownSchedule, ScheduleOutcome]:
        self.schedules.records.check_size(address, definition)
        author = Author(Origin.RUNTIME, by)

        def move(record: ScheduleRecord | None) -> Decision:
            if record is None:
                return changes.create(address, definition, author=author, now=now)
            return changes.put(_made_at_run_time(record), definition, author=author, now=now)

        return await self._change(address, move, now)

    async def pause(
        self, address: ScheduleAddress, pause: Pause
    ) -> tuple[KnownSchedule, ScheduleOutcome]:
        """A schedule that is paused already gets this pause instead."""
        return await self._change(
            address, lambda record: changes.pause(_existing(address, record), pause), pause.since
        )

    async def resume(
        self, address: ScheduleAddress, *, now: datetime
    ) -> tuple[KnownSchedule, ScheduleOutcome]:
        return await self._change(
            address, lambda record: changes.resume(_existing(address, record), now=now), now
        )

    async def trigger(
        self, address: ScheduleAddress, job_id: str, *, by: str, now: datetime
    ) -> None:
        """Records the job with the schedule. A worker of the service creates it at once."""

        def move(record: ScheduleRecord | None) -> Decision:
            decision = changes.trigger(_existing(address, record), job_id, by=by, now=now)
            if isinstance(decision, Refused):
                raise ScheduleRefused(str(address), decision.reason)
            return decision

        await self.schedules.change(address, move)

    async def delete(self, address: ScheduleAddress) -> None:
        if not await self.schedules.delete(address, check=_made_at_run_time):
            raise ScheduleNotFound(str(address))

    async def _change(
        self,
        address: ScheduleAddress,
        move: Callable[[ScheduleRecord | None], Decision],
        now: datetime,
    ) -> tuple[KnownSchedule, ScheduleOutcome]:
        outcome = ScheduleOutcome.UNCHANGED

        def observed(before: ScheduleRecord | None) -> Decision:
            nonlocal outcome
            decision = move(before)
            outcome = _outcome(before, decision)
            return decision

        changed = await self.schedules.change(address, observed)
        return KnownSchedule(address, StoredSchedule(changed, stored_at=now)), outcome


def _outcome(before: ScheduleRecord | None, decision: Decision) -> ScheduleOutcome:
    if before is None:
        return ScheduleOutcome.CREATED
    is_same = before == decision.record
    return ScheduleOutcome.UNCHANGED if is_same else ScheduleOutcome.CHANGED


def _existing(address: ScheduleAddress, record: ScheduleRecord | None) -> ScheduleRecord:
    if record is None:
        raise ScheduleNotFound(str(address))
    return record


def _made_at_run_time(record: ScheduleRecord) -> ScheduleRecord:
    if record.origin is Origin.CONTRACT:
        raise ScheduleDeclared(str(record.address))
    return record
