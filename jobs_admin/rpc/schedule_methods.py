"""The RPCs about schedules: list, show, make, pause, resume, trigger and delete them."""

from __future__ import annotations

import logging
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from jobs_admin.api.contract import Rpcs
from jobs_admin.api.error_envelope import Invalid, NotFound
from jobs_admin.api.errors import (
    CONTRACT_ISSUE,
    ContractMissing,
    Issue,
    ProjectionUnavailable,
    QueueMissing,
)
from jobs_admin.api.views.base import Page
from jobs_admin.api.views.schedules import (
    ChangedSchedule,
    DeletedSchedule,
    OneSchedule,
    ScheduleView,
    TriggeredSchedule,
)
from jobs_admin.queues.contract import has_payload_schema, published_contract
from jobs_admin.queues.declared_secrets import declared_secrets
from jobs_admin.queues.read import known_queue
from jobs_admin.reads.job_states import job_states
from jobs_admin.rpc.router import answered_by
from jobs_admin.schedules.definition import read_definition
from jobs_admin.schedules.known_queues import known_queues
from jobs_admin.schedules.views import detail_view, schedule_view
from jobs_admin.workers.views import known_workers
from trellis_jobs.errors import (
    DeclarationError,
    ScheduleDeclared,
    ScheduleNotFound,
    ScheduleRefused,
)
from trellis_jobs.model.redaction import redacted
from trellis_jobs.model.schedules.address import ScheduleAddress
from trellis_jobs.model.schedules.record import Pause
from trellis_jobs.model.worker_states import WorkerState

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from datetime import datetime

    from jobs_admin.api import inputs, schedule_inputs
    from jobs_admin.api.views.schedules import ScheduleDetailView
    from jobs_admin.reads.readers import Readers
    from jobs_admin.rpc.router import Caller, Method
    from jobs_admin.schedules.actions import ScheduleActions
    from jobs_admin.schedules.registry import KnownSchedule, ScheduleRegistry
    from jobs_admin.workers.registry import WorkerRegistry
    from trellis_jobs.jetstream.client.connection import Connection
    from trellis_jobs.jetstream.client.server_clock import ServerClock
    from trellis_jobs.model.states import JobState

log = logging.getLogger(__name__)

# In the replies to changes.
_TICKS: Final = 10
# Room for the other fields of a reply with one schedule, in bytes.
_ENVELOPE_BYTES: Final = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleMethods:
    """`grace`: for how long a schedule that is due is left to the workers of its service."""

    connection: Connection
    registry: ScheduleRegistry
    actions: ScheduleActions
    readers: Readers
    workers: WorkerRegistry
    clock: ServerClock
    new_id: Callable[[], str]
    grace: timedelta
    max_reply_bytes: Callable[[], int]

    def table(self) -> Mapping[str, Method]:
        return dict(
            [
                answered_by(Rpcs.LIST_SCHEDULES, self.list_schedules),
                answered_by(Rpcs.GET_SCHEDULE, self.get),
                answered_by(Rpcs.PUT_SCHEDULE, self.put),
                answered_by(Rpcs.PAUSE_SCHEDULE, self.pause),
                answered_by(Rpcs.RESUME_SCHEDULE, self.resume),
                answered_by(Rpcs.TRIGGER_SCHEDULE, self.trigger),
                answered_by(Rpcs.DELETE_SCHEDULE, self.delete),
            ]
        )

    async def list_schedules(self, request: inputs.QueuePageInput, _: Caller) -> Page[ScheduleView]:
        """Also schedules that another admin runtime has changed a moment ago (design D17)."""
        await self.registry.until(await self.actions.schedules.records.position())
        now = await self.clock.now()
        found = self.registry.select(request.service, request.type)
        shown = found[request.offset : request.offset + request.limit]
        queues = known_queues(self.workers.heard())
        return Page[ScheduleView].of(
            [schedule_view(each, now, self.grace, queues) for each in shown],
            count=len(found),
            offset=request.offset,
            limit=request.limit,
        )

    async def get(self, request: schedule_inputs.GetScheduleInput, _: Caller) -> OneSchedule:
        with _refusals():
            found = await self.actions.find(_address(request))
        return OneSchedule(schedule=await self._detail(found, request.ticks))

    async def put(
        self, request: schedule_inputs.PutScheduleInput, caller: Caller
    ) -> ChangedSchedule:
        address, by = _address(request), _actor(request, caller)
        with _refusals():
            found = await known_queue(self.connection, request.service, request.type)
            queue = published_contract(found)
            definition = read_definition(request, queue)
            now = await self.clock.now()
            changed, outcome = await self.actions.put(address, definition, by=by, now=now)
        log.info("schedule %s was put by %s: %s", address, by, outcome)
        schedule = await self._detail(changed)
        checked = has_payload_schema(queue)
        return ChangedSchedule(schedule=schedule, outcome=outcome, payload_checked=checked)

    async def pause(
        self, request: schedule_inputs.PauseScheduleInput, caller: Caller
    ) -> ChangedSchedule:
        address, by, now = _address(request), _actor(request, caller), await self.clock.now()
        until = _end_of_pause(request, now)
        pause = Pause(since=now, until=until, by=by, reason=request.reason)
        with _refusals():
            changed, outcome = await self.actions.pause(address, pause)
        log.info("schedule %s was paused by %s: %s", address, by, request.reason)
        return ChangedSchedule(schedule=await self._detail(changed), outcome=outcome)

    async def resume(
        self, request: schedule_inputs.ChangeScheduleInput, caller: Caller
    ) -> ChangedSchedule:
        address, now = _address(request), await self.clock.now()
        with _refusals():
            changed, outcome = await self.actions.resume(address, now=now)
        log.info("schedule %s was resumed by %s", address, _actor(request, caller))
        return ChangedSchedule(schedule=await self._detail(changed), outcome=outcome)

    async def trigger(
        self, request: schedule_inputs.ChangeScheduleInput, caller: Caller
    ) -> TriggeredSchedule:
        address, by, now = _address(request), _actor(request, caller), await self.clock.now()
        job_id = self.new_id()
        with _refusals():
            await self.actions.trigger(address, job_id, by=by, now=now)
        log.info("schedule %s was triggered by %s: job %s", address, by, job_id)
        return TriggeredSchedule(
            service=request.service,
            type=request.type,
            name=request.name,
            job_id=job_id,
            workers=await self._running_workers(request.service),
        )

    async def delete(
        self, request: schedule_inputs.ChangeScheduleInput, caller: Caller
    ) -> DeletedSchedule:
        address = _address(request)
        with _refusals():
            await self.actions.delete(address)
        log.info("schedule %s was deleted by %s", address, _actor(request, caller))
        return DeletedSchedule(service=request.service, type=request.type, name=request.name)

    async def _detail(self, known: KnownSchedule, ticks: int = _TICKS) -> ScheduleDetailView:
        now, states = await self.clock.now(), await self._states(known)
        detail = detail_view(
            known,
            now,
            self.grace,
            known_queues(self.workers.heard()),
            ticks=ticks,
            states=states,
        )
        # A field may have become a secret after the schedule was made.
        address = known.address
        secrets = await declared_secrets(self.connection, address.service, address.job_type)
        payload = redacted(detail.payload, secrets)
        detail = detail.model_copy(update={"payload": payload})
        if len(detail.encode()) + _ENVELOPE_BYTES <= self.max_reply_bytes():
            return detail
        return detail.model_copy(update={"payload": None, "omitted": ("payload",)})

    async def _states(self, known: KnownSchedule) -> dict[str, JobState]:
        """Of its last jobs. Empty while the projection is rebuilt."""
        record, address = known.stored.record, known.address
        ids = [run.job_id for run in (record.runs if record else ()) if run.job_id is not None]
        try:
            return await job_states(self.readers, address.service, address.job_type, ids)
        except ProjectionUnavailable:
            return {}

    async def _running_workers(self, service: str) -> int | None:
        if not self.workers.is_complete:
            return None
        known = known_workers(self.workers, await self.clock.now())
        return sum(
            each.service == service and not each.silent and each.state is WorkerState.RUNNING
            for each in known
        )


def _address(request: schedule_inputs.ScheduleInput) -> ScheduleAddress:
    return ScheduleAddress(request.service, request.type, request.name)


def _actor(request: schedule_inputs.ChangeScheduleInput, caller: Caller) -> str:
    return request.by or caller.session or "operator"


def _end_of_pause(request: schedule_inputs.PauseScheduleInput, now: datetime) -> datetime | None:
    if request.duration_ms is not None:
        return now + timedelta(milliseconds=request.duration_ms)
    if request.until is not None and request.until <= now:
        problem = f"the pause would end in the past, at {request.until.isoformat()}"
        raise Invalid(problem, [Issue("/until", problem)])
    return request.until


@contextmanager
def _refusals() -> Iterator[None]:
    """Turns errors about schedules and queues into refusals with a type."""
    try:
        yield
    except ScheduleNotFound as missing:
        raise NotFound(missing.schedule, resource="Schedule") from None
    except QueueMissing as missing:
        raise NotFound(missing.name, resource="Queue", why=missing.why) from None
    except (ContractMissing, DeclarationError) as unusable:
        raise Invalid(str(unusable), [Issue(CONTRACT_ISSUE, str(unusable))]) from None
    except (ScheduleDeclared, ScheduleRefused) as refusal:
        raise Invalid(str(refusal), [Issue("/name", str(refusal))]) from None
