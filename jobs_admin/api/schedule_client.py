"""The requests about schedules: `admin.schedules` of a client of the admin runtime."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, TypedDict, Unpack

from jobs_admin.api.contract import Rpcs
from jobs_admin.api.paging import iterate
from jobs_admin.api.rpc_sender import PAGE_SIZE

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from datetime import datetime

    from jobs_admin.api.rpc_sender import PageArguments, RpcSender
    from jobs_admin.api.views.base import Page
    from jobs_admin.api.views.schedules import (
        ChangedSchedule,
        ScheduleDetailView,
        ScheduleView,
        TriggeredSchedule,
    )
    from trellis_jobs.model.schedules.address import ScheduleAddress
    from trellis_jobs.model.schedules.definition import CatchUp, Overlap

_MILLISECOND: Final = timedelta(milliseconds=1)


class ScheduleArguments(TypedDict, total=False):
    """Either `cron`, in `time_zone`, or `every`. The rest is as in `Cron` and `Every`."""

    cron: str | None
    time_zone: str | None
    every: timedelta | None
    jitter: timedelta | None
    start: datetime | None
    end: datetime | None
    catch_up: CatchUp
    max_catch_up: int
    overlap: Overlap


@dataclass(frozen=True, slots=True)
class ScheduleClient:
    _rpcs: RpcSender

    async def list(
        self, *, service: str | None = None, type: str | None = None, **page: Unpack[PageArguments]
    ) -> Page[ScheduleView]:
        """List schedules by service, queue and name."""
        return await self._rpcs.page(Rpcs.LIST_SCHEDULES, service=service, type=type, **page)

    def all(
        self, *, service: str | None = None, type: str | None = None, page: int = PAGE_SIZE
    ) -> AsyncIterator[ScheduleView]:
        fetch = self._rpcs.pages(Rpcs.LIST_SCHEDULES, page, service=service, type=type)
        return iterate(fetch, lambda schedule: schedule.address)

    async def get(self, schedule: ScheduleAddress, *, ticks: int = 10) -> ScheduleDetailView:
        """Get a schedule with its last runs, and with this many of its next ticks."""
        fields = {**_fields(schedule), "ticks": ticks}
        return (await self._rpcs.ask(Rpcs.GET_SCHEDULE, **fields)).schedule

    async def put(
        self,
        schedule: ScheduleAddress,
        payload: Any,
        *,
        reason: str | None = None,
        **arguments: Unpack[ScheduleArguments],
    ) -> ChangedSchedule:
        """Make a schedule at run time, or change it. The same again changes nothing.

        The payload is checked against the queue's contract. A schedule that the contract declares
        cannot be changed in this way.
        """
        durations = {
            "every_ms": _milliseconds(arguments.pop("every", None)),
            "jitter_ms": _milliseconds(arguments.pop("jitter", None)),
        }
        fields = {**_fields(schedule), "payload": payload, "reason": reason, **durations}
        return await self._rpcs.ask(Rpcs.PUT_SCHEDULE, **fields, **arguments)

    async def pause(
        self,
        schedule: ScheduleAddress,
        *,
        reason: str,
        until: datetime | None = None,
        duration: timedelta | None = None,
    ) -> ChangedSchedule:
        """Create no jobs until then, for this long, or until the schedule is resumed."""
        fields = {"reason": reason, "until": until, "duration_ms": _milliseconds(duration)}
        return await self._rpcs.ask(Rpcs.PAUSE_SCHEDULE, **_fields(schedule), **fields)

    async def resume(
        self, schedule: ScheduleAddress, *, reason: str | None = None
    ) -> ChangedSchedule:
        """End a pause. The catch-up policy decides about the ticks of the pause."""
        return await self._rpcs.ask(Rpcs.RESUME_SCHEDULE, **_fields(schedule), reason=reason)

    async def trigger(
        self, schedule: ScheduleAddress, *, reason: str | None = None
    ) -> TriggeredSchedule:
        """Have a job of the schedule created now. A worker of its service creates it."""
        return await self._rpcs.ask(Rpcs.TRIGGER_SCHEDULE, **_fields(schedule), reason=reason)

    async def delete(self, schedule: ScheduleAddress, *, reason: str | None = None) -> None:
        """Delete a schedule that was made at run time. Its jobs are not changed."""
        await self._rpcs.ask(Rpcs.DELETE_SCHEDULE, **_fields(schedule), reason=reason)


def _fields(schedule: ScheduleAddress) -> dict[str, Any]:
    return {"service": schedule.service, "type": schedule.job_type, "name": schedule.schedule}


def _milliseconds(duration: timedelta | None) -> int | None:
    return None if duration is None else duration // _MILLISECOND
