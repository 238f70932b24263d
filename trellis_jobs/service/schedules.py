"""The schedules of one queue: make, change, pause, trigger and delete them at run time."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from trellis_jobs.contract.schedules import resolve_new
from trellis_jobs.errors import (
    JobExists,
    RunAtInvalid,
    ScheduleDeclared,
    ScheduleNotFound,
    ScheduleRefused,
)
from trellis_jobs.model.identity import check_token_argument
from trellis_jobs.model.schedules import changes
from trellis_jobs.model.schedules.address import ScheduleAddress
from trellis_jobs.model.schedules.changes import Author, Refused
from trellis_jobs.model.schedules.record import Decision, Origin, Pause
from trellis_jobs.model.schedules.upcoming import next_upcoming, upcoming
from trellis_jobs.producer.tick_request import TICK_REFUSALS, tick_request

if TYPE_CHECKING:
    from collections.abc import Callable

    from trellis_jobs.contract.declaration import JobType
    from trellis_jobs.contract.schedules import Schedule
    from trellis_jobs.jetstream.schedules.schedules import Schedules
    from trellis_jobs.model.schedules.definition import ScheduleDefinition
    from trellis_jobs.model.schedules.record import Run, ScheduleRecord
    from trellis_jobs.producer.job_ref import JobRef
    from trellis_jobs.service.runtime import Runtime

P = TypeVar("P")
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class ScheduleSnapshot:
    """A schedule at the time when it was read. `record` has all details."""

    record: ScheduleRecord
    read_at: datetime

    @property
    def name(self) -> str:
        return self.record.address.schedule

    @property
    def definition(self) -> ScheduleDefinition:
        return self.record.definition

    @property
    def is_declared(self) -> bool:
        """Whether the contract of the service declares it."""
        return self.record.origin is Origin.CONTRACT

    @property
    def paused(self) -> Pause | None:
        return self.record.paused

    @property
    def next_at(self) -> datetime | None:
        """When the job of its next tick is created, counted from `read_at`.

        While it is paused until a time, that of the first tick afterwards. None if there is no tick
        any more, or if it is paused until someone resumes it.
        """
        following = next_upcoming(self.record, self.read_at)
        return None if following is None else following.at

    @property
    def runs(self) -> tuple[Run, ...]:
        """What became of its last ticks, oldest first."""
        return self.record.runs

    def next_ticks(self, count: int = 10) -> list[datetime]:
        """The next ticks in UTC after `read_at`, and after the end of a pause if it has one.

        If it is paused until someone resumes it, the ones that it would have.
        """
        return [each.tick for each in upcoming(self.record, self.read_at, count)]


class QueueSchedules(Generic[P, R]):
    """What `service.jobs.<queue>.schedules` is."""

    __slots__ = ("_runtime", "_type")

    def __init__(self, declared: JobType[P, R], runtime: Runtime) -> None:
        self._type = declared
        self._runtime = runtime

    async def put(self, name: str, schedule: Schedule) -> ScheduleSnapshot:
        """Makes a schedule, or changes it. The same schedule again changes nothing.

        Raises ScheduleDeclared if the contract declares a schedule with this name, and
        ScheduleRefused if the payload is too large for a schedule.
        """
        address = self._address(name)
        definition = resolve_new(schedule, self._type.payload, self._type.version)
        self._schedules.records.check_size(address, definition)
        author = Author(Origin.RUNTIME, self._runtime.service)

        def move(record: ScheduleRecord | None) -> Decision:
            now = self._runtime.now()
            if record is None:
                return changes.create(address, definition, author=author, now=now)
            return changes.put(_made_at_run_time(record), definition, author=author, now=now)

        return await self._change(address, move)

    async def get(self, name: str) -> ScheduleSnapshot:
        """Raises ScheduleNotFound."""
        address = self._address(name)
        stored = await self._schedules.records.find(address)
        return self._snapshot(_existing(address, stored.record))

    async def list(self) -> list[ScheduleSnapshot]:
        """All schedules of the queue, ordered by name, declared ones too."""
        records = await self._schedules.records.all(self._runtime.service)
        return [
            self._snapshot(record)
            for record in records
            if record.address.job_type == self._type.name
        ]

    async def pause(
        self, name: str, *, until: datetime | None = None, reason: str | None = None
    ) -> ScheduleSnapshot:
        """Creates no jobs until then, or until resume(). Jobs that exist are not changed."""
        if until is not None and until.tzinfo is None:
            raise RunAtInvalid(until, "it needs a time zone: datetime.now(UTC) + …")
        pause = Pause(
            since=self._runtime.now(),
            until=None if until is None else until.astimezone(UTC),
            by=self._runtime.service,
            reason=reason,
        )
        return await self._change_existing(name, lambda record: changes.pause(record, pause))

    async def resume(self, name: str) -> ScheduleSnapshot:
        """The catch-up policy decides about the ticks of the pause."""
        return await self._change_existing(
            name, lambda record: changes.resume(record, now=self._runtime.now())
        )

    async def trigger(self, name: str) -> JobRef[R]:
        """Creates a job of the schedule now, whatever its timing says, also while it is paused.

        The record has the job before it is created. If this process dies in between, a worker
        process of the service creates it. If the job cannot be created now, such as with QueueFull,
        it is not created later either.
        """
        job_id, now = self._runtime.environment.new_id(), self._runtime.now()

        def move(record: ScheduleRecord) -> Decision:
            decision = changes.trigger(record, job_id, by=self._runtime.service, now=now)
            if isinstance(decision, Refused):
                raise ScheduleRefused(name, decision.reason)
            return decision

        record = (await self._change_existing(name, move)).record
        try:
            with suppress(JobExists):
                producer = self._runtime.connected_here().producer
                await producer.create(tick_request(self._type, record, job_id, now))
        except TICK_REFUSALS as refusal:
            if await self._give_up(name, job_id, str(refusal)):
                raise
        return self._runtime.ref(self._type, job_id, since=1)

    async def _give_up(self, name: str, job_id: str, reason: str) -> bool:
        """Returns False if a worker process has created the job in the meantime."""

        def move(record: ScheduleRecord | None) -> Decision | None:
            if record is None or job_id not in [job.job_id for job in record.unfinished]:
                return None
            refused = {job_id: reason}
            finished = changes.finish(record, (), refused=refused, now=self._runtime.now())
            return Decision(finished, None)

        record = await self._schedules.change(self._address(name), move)
        runs = () if record is None else record.runs
        return not any(run.job_id == job_id and run.refused is None for run in runs)

    async def delete(self, name: str) -> None:
        """Raises ScheduleNotFound, and ScheduleDeclared if the contract declares it."""
        address = self._address(name)
        if not await self._schedules.delete(address, check=_made_at_run_time):
            raise ScheduleNotFound(str(address))

    @property
    def _schedules(self) -> Schedules:
        return self._runtime.connected_here().schedules

    def _address(self, name: str) -> ScheduleAddress:
        check_token_argument("schedule", name)
        return ScheduleAddress(self._runtime.service, self._type.name, name)

    async def _change_existing(
        self, name: str, move: Callable[[ScheduleRecord], Decision]
    ) -> ScheduleSnapshot:
        address = self._address(name)
        return await self._change(address, lambda record: move(_existing(address, record)))

    async def _change(
        self, address: ScheduleAddress, move: Callable[[ScheduleRecord | None], Decision]
    ) -> ScheduleSnapshot:
        changed: Any = await self._schedules.change(address, move)
        return self._snapshot(changed)

    def _snapshot(self, record: ScheduleRecord) -> ScheduleSnapshot:
        return ScheduleSnapshot(record, self._runtime.now())


def _existing(address: ScheduleAddress, record: ScheduleRecord | None) -> ScheduleRecord:
    if record is None:
        raise ScheduleNotFound(str(address))
    return record


def _made_at_run_time(record: ScheduleRecord) -> ScheduleRecord:
    if record.origin is Origin.CONTRACT:
        raise ScheduleDeclared(str(record.address))
    return record
