"""The RPCs about services, workers, statistics and ignored messages."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from jobs_admin.api.contract import Rpcs
from jobs_admin.reads import ignored, services
from jobs_admin.reads.read_your_writes import wait_for_position
from jobs_admin.reads.stats import stats
from jobs_admin.rpc.router import answered_by

if TYPE_CHECKING:
    from collections.abc import Mapping

    from jobs_admin.api import inputs
    from jobs_admin.api.views.base import Page
    from jobs_admin.api.views.services import IgnoredView, ServiceView, StatsView
    from jobs_admin.reads.read_your_writes import ProjectionProgress
    from jobs_admin.reads.readers import Readers
    from jobs_admin.rpc.router import Caller, Method
    from trellis_jobs.jetstream.client.server_clock import ServerClock


@dataclass(frozen=True, slots=True)
class ServiceMethods:
    readers: Readers
    progress: ProjectionProgress
    clock: ServerClock

    def table(self) -> Mapping[str, Method]:
        return dict(
            [
                answered_by(Rpcs.LIST_SERVICES, self.list_services),
                answered_by(Rpcs.LIST_IGNORED, self.list_ignored),
                answered_by(Rpcs.STATS, self.get_stats),
            ]
        )

    async def list_services(self, request: inputs.PageInput, _: Caller) -> Page[ServiceView]:
        await wait_for_position(self.progress, request.min_seq)
        now = await self.clock.now()
        return await services.page(
            self.readers, now=now, offset=request.offset, limit=request.limit
        )

    async def list_ignored(self, request: inputs.QueuePageInput, _: Caller) -> Page[IgnoredView]:
        await wait_for_position(self.progress, request.min_seq)
        return await ignored.page(
            self.readers,
            service=request.service,
            job_type=request.type,
            offset=request.offset,
            limit=request.limit,
        )

    async def get_stats(self, request: inputs.StatsInput, _: Caller) -> StatsView:
        await wait_for_position(self.progress, request.min_seq)
        return await stats(
            self.readers,
            now=await self.clock.now(),
            service=request.service,
            job_type=request.type,
            window=timedelta(minutes=request.window_minutes),
        )
