"""The RPCs about queues and about the installation as a whole, from the server's current state."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from jobs_admin.api.contract import Rpcs
from jobs_admin.api.error_envelope import NotFound
from jobs_admin.api.errors import ProjectionUnavailable, QueueMissing
from jobs_admin.api.views.base import Page
from jobs_admin.api.views.queues import QueueView
from jobs_admin.doctor import rules
from jobs_admin.doctor.alarm_rules import check_alarms, read_alarms
from jobs_admin.doctor.checks import diagnose
from jobs_admin.doctor.schedule_rules import check_schedules
from jobs_admin.doctor.worker_rules import check_worker_records
from jobs_admin.queues.read import read_queues
from jobs_admin.queues.state import (
    ProjectedQueues,
    queue_views,
    with_workers,
    without_ended,
)
from jobs_admin.reads import services
from jobs_admin.reads.read_your_writes import wait_for_position
from jobs_admin.reads.stats import stats
from jobs_admin.rpc.router import answered_by
from jobs_admin.schedules.known_queues import known_queues
from jobs_admin.workers.views import known_workers

if TYPE_CHECKING:
    from collections.abc import Mapping

    from jobs_admin.api import inputs
    from jobs_admin.api.views.doctor import Diagnosis, Finding
    from jobs_admin.api.views.queues import ChangedQueue
    from jobs_admin.api.views.services import ServiceView, WorkerView
    from jobs_admin.api.views.workers import WorkerProcessView
    from jobs_admin.doctor.checks import Installation
    from jobs_admin.health import Health
    from jobs_admin.queues.actions import QueueActions
    from jobs_admin.reads.read_your_writes import ProjectionProgress
    from jobs_admin.reads.readers import Readers
    from jobs_admin.rpc.router import Caller, Method
    from jobs_admin.schedules.registry import ScheduleRegistry
    from jobs_admin.workers.registry import WorkerRegistry
    from trellis_jobs.jetstream.client.server_clock import ServerClock

log = logging.getLogger(__name__)

_ALL: Final = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueMethods:
    """`grace`: for how long a schedule that is due is left to the workers of its service."""

    installation: Installation
    readers: Readers
    progress: ProjectionProgress
    health: Health
    actions: QueueActions
    clock: ServerClock
    workers: WorkerRegistry
    schedules: ScheduleRegistry
    grace: timedelta

    def table(self) -> Mapping[str, Method]:
        return dict(
            [
                answered_by(Rpcs.LIST_QUEUES, self.list_queues),
                answered_by(Rpcs.PAUSE_QUEUE, self.pause),
                answered_by(Rpcs.RESUME_QUEUE, self.resume),
                answered_by(Rpcs.DOCTOR, self.examine),
            ]
        )

    async def list_queues(self, request: inputs.QueuesInput, _: Caller) -> Page[QueueView]:
        """While the projection is rebuilt, the queues have only the server's facts."""
        await wait_for_position(self.progress, request.min_seq)
        queues = [
            queue
            for queue in await self._queues(with_ended=request.with_ended)
            if request.service in (None, queue.service) and request.type in (None, queue.type)
        ]
        return Page[QueueView].of(
            queues[request.offset : request.offset + request.limit],
            count=len(queues),
            offset=request.offset,
            limit=request.limit,
        )

    async def pause(self, request: inputs.PauseInput, caller: Caller) -> ChangedQueue:
        by, length = request.by or caller.session or "operator", request.duration_ms
        try:
            changed = await self.actions.pause(
                request.service,
                request.type,
                reason=request.reason,
                by=by,
                duration=None if length is None else timedelta(milliseconds=length),
            )
        except QueueMissing as missing:
            raise NotFound(missing.name, resource="Queue", why=missing.why) from None
        log.info("queue %s was paused by %s: %s", changed.name, by, request.reason)
        return changed

    async def resume(self, request: inputs.QueueInput, caller: Caller) -> ChangedQueue:
        try:
            changed = await self.actions.resume(request.service, request.type)
        except QueueMissing as missing:
            raise NotFound(missing.name, resource="Queue", why=missing.why) from None
        by = request.by or caller.session or "operator"
        log.info("queue %s was resumed by %s", changed.name, by)
        return changed

    async def examine(self, _: inputs.Nothing, __: Caller) -> Diagnosis:
        of_server = self.installation.server_checks()
        steps = {
            "server": of_server["server"],
            "streams": of_server["streams"],
            "queues": self._check_queues,
            "alarms": self._check_alarms,
            "readers": of_server["readers"],
            "admin": self._check_admin,
            "clock": of_server["clock"],
        }
        return await diagnose(self.installation, steps)

    async def _check_queues(self) -> list[Finding]:
        return rules.check_queues(await self._queues(with_ended=False))

    async def _check_alarms(self) -> list[Finding]:
        queues = await self._queues(with_ended=False)
        found = check_alarms(await read_alarms(self.installation.connection, queues))
        return [*found, *await self._check_schedules()]

    async def _check_schedules(self) -> list[Finding]:
        known = self.schedules.select() if self.schedules.is_complete else []
        unreadable = [each.address for each in known if each.stored.problem is not None]
        overdue = await self.schedules.overdue(await self.clock.now() - self.grace)
        queues = known_queues(self.workers.heard())
        unknown = [each.address for each in known if queues.lacks(each.address)]
        return check_schedules(overdue, unreadable, unknown)

    async def _check_admin(self) -> list[Finding]:
        health, listed = await asyncio.gather(self.health.report(), self._services())
        workers = [worker for service in listed for worker in service.workers]
        return [
            *rules.check_health(health.view),
            *rules.check_workers(workers),
            *rules.check_worker_clocks(workers),
            *await self._check_records(workers),
        ]

    async def _check_records(self, heartbeats: list[WorkerView]) -> list[Finding]:
        if not self.workers.is_complete:
            return []
        return check_worker_records(await self._processes(), heartbeats, await self.clock.now())

    async def _queues(self, *, with_ended: bool) -> list[QueueView]:
        listed, projected = await asyncio.gather(
            read_queues(self.installation.connection), self._projected()
        )
        queues = queue_views(listed, projected)
        if self.workers.is_complete:
            queues = with_workers(queues, await self._processes())
        return queues if with_ended else without_ended(queues)

    async def _processes(self) -> list[WorkerProcessView]:
        return known_workers(self.workers, await self.clock.now())

    async def _projected(self) -> ProjectedQueues | None:
        try:
            counted = await stats(self.readers, now=await self.clock.now())
            workers = {
                f"{service.name}/{of_type.type}": of_type.live_workers
                for service in await self._page_of_services()
                for of_type in service.types
            }
        except ProjectionUnavailable:
            return None
        return ProjectedQueues(counted.types, workers)

    async def _services(self) -> tuple[ServiceView, ...]:
        """Empty while the projection is rebuilt; the health says so."""
        try:
            return await self._page_of_services()
        except ProjectionUnavailable:
            return ()

    async def _page_of_services(self) -> tuple[ServiceView, ...]:
        now = await self.clock.now()
        return (await services.page(self.readers, now=now, offset=0, limit=_ALL)).entries
