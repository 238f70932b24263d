"""What the server, the projection and the records of workers know about queues, together."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from jobs_admin.api.errors import ProjectionUnavailable
from jobs_admin.api.history_inputs import HistoryInput
from jobs_admin.api.queue_rates import FAILURES
from jobs_admin.doctor.job_rules import first_failing_minute
from jobs_admin.queues.read import read_queues
from jobs_admin.queues.state import (
    ProjectedQueues,
    queue_views,
    with_workers,
    without_ended,
)
from jobs_admin.reads import services
from jobs_admin.reads.history import history
from jobs_admin.reads.keys import busy
from jobs_admin.reads.stats import stats
from jobs_admin.rpc.key_holders import KeyHolders
from jobs_admin.workers.views import known_workers
from trellis_jobs.model.events import EventKind

if TYPE_CHECKING:
    from datetime import datetime

    from jobs_admin.actions.job_keys import JobKeys
    from jobs_admin.api.views.keys import BusyKeyView
    from jobs_admin.api.views.queues import QueueView
    from jobs_admin.api.views.services import ServiceView
    from jobs_admin.api.views.workers import WorkerProcessView
    from jobs_admin.reads.readers import Readers
    from jobs_admin.workers.registry import WorkerRegistry
    from trellis_jobs.jetstream.client.connection import Connection
    from trellis_jobs.jetstream.client.server_clock import ServerClock

_ALL: Final = 1_000_000
_MAX_KEYS: Final = 20
_MINUTE: Final = timedelta(minutes=1)
_HOUR: Final = timedelta(hours=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueFacts:
    connection: Connection
    readers: Readers
    clock: ServerClock
    workers: WorkerRegistry
    keys: JobKeys

    async def queues(self, *, with_ended: bool) -> list[QueueView]:
        listed, projected = await asyncio.gather(read_queues(self.connection), self._projected())
        queues = queue_views(listed, projected)
        if self.workers.is_complete:
            queues = with_workers(queues, await self.processes())
        return queues if with_ended else without_ended(queues)

    async def processes(self) -> list[WorkerProcessView]:
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

    async def services(self) -> tuple[ServiceView, ...]:
        """Empty while the projection is rebuilt; the health says so."""
        try:
            return await self._page_of_services()
        except ProjectionUnavailable:
            return ()

    async def _page_of_services(self) -> tuple[ServiceView, ...]:
        now = await self.clock.now()
        return (await services.page(self.readers, now=now, offset=0, limit=_ALL)).entries

    async def contended_keys(self) -> list[BusyKeyView]:
        """The keys for which most jobs wait. Empty while the projection is rebuilt."""
        try:
            page = await busy(self.readers, offset=0, limit=_MAX_KEYS)
        except ProjectionUnavailable:
            return []
        waited_for = [key for key in page.entries if key.waiting]
        return await KeyHolders(self.keys, self.clock).added_to(waited_for)

    async def failing_since(self, queue: QueueView) -> datetime:
        """From which minute of the last hour on most tries of the queue have failed."""
        now = await self.clock.now()
        request = HistoryInput.model_validate(
            {
                "since": now - _HOUR,
                "stepMinutes": 1,
                "service": queue.service,
                "type": queue.type,
            }
        )
        found = await history(self.readers, request, now)
        steps = (found.until - found.since) // _MINUTE
        tries = found.events.get(EventKind.STARTED, (0,) * steps)
        failures = [
            sum(found.events[kind][step] for kind in FAILURES if kind in found.events)
            for step in range(steps)
        ]
        return found.since + first_failing_minute(tries, failures) * _MINUTE
