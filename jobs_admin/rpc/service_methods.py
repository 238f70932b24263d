"""The RPCs about services, workers, statistics and ignored messages."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import orjson

from jobs_admin.reads import ignored, services
from jobs_admin.reads.read_your_writes import wait_for_position
from jobs_admin.reads.stats import stats
from jobs_admin.rpc.pages import page_json, services_json

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from jobs_admin.api import inputs
    from jobs_admin.reads.read_your_writes import ProjectionProgress
    from jobs_admin.reads.readers import Readers
    from jobs_admin.rpc.router import Caller, Method
    from trellis_jobs.jetstream.client.server_clock import ServerClock


@dataclass(frozen=True, slots=True)
class ServiceMethods:
    readers: Readers
    progress: ProjectionProgress
    clock: ServerClock
    max_reply_bytes: Callable[[], int]

    def table(self) -> Mapping[str, Method]:
        return {
            "Jobs.ListServices": self.list_services,
            "Jobs.ListIgnored": self.list_ignored,
            "Jobs.Stats": self.get_stats,
        }

    async def list_services(self, request: inputs.PageInput, _: Caller) -> bytes:
        await wait_for_position(self.progress, request.min_seq)
        now = await self.clock.now()
        page = await services.page(
            self.readers, now=now, offset=request.offset, limit=request.limit
        )
        return page_json(
            services_json(page.entries, room=self.max_reply_bytes()),
            count=page.count,
            offset=request.offset,
            limit=request.limit,
            room=self.max_reply_bytes(),
        )

    async def list_ignored(self, request: inputs.QueuePageInput, _: Caller) -> bytes:
        await wait_for_position(self.progress, request.min_seq)
        page = await ignored.page(
            self.readers,
            service=request.service,
            job_type=request.type,
            offset=request.offset,
            limit=request.limit,
        )
        return page_json(
            [orjson.dumps(each) for each in page.entries],
            count=page.count,
            offset=request.offset,
            limit=request.limit,
            room=self.max_reply_bytes(),
        )

    async def get_stats(self, request: inputs.StatsInput, _: Caller) -> dict[str, Any]:
        await wait_for_position(self.progress, request.min_seq)
        return await stats(
            self.readers,
            now=await self.clock.now(),
            service=request.service,
            job_type=request.type,
            window=timedelta(minutes=request.window_minutes),
        )
