"""Requests about all jobs at once: services with their workers, and numbers."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import orjson

from jobs_admin.api import inputs
from jobs_admin.reads import ignored, services
from jobs_admin.reads.read_your_writes import caught_up
from jobs_admin.reads.stats import stats
from jobs_admin.rpc.pages import page_json, services_json
from jobs_admin.rpc.router import Method

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from jobs_admin.reads.read_your_writes import ProjectionProgress
    from jobs_admin.reads.readers import Readers
    from jobs_admin.rpc.router import Asker
    from trellis_jobs.jetstream.client.server_clock import ServerClock


@dataclass(frozen=True, slots=True)
class ServiceMethods:
    readers: Readers
    progress: ProjectionProgress
    clock: ServerClock
    largest_answer: Callable[[], int]

    def table(self) -> Mapping[str, Method]:
        return {
            "Jobs.ListServices": Method(inputs.PageInput, self.list_services),
            "Jobs.ListIgnored": Method(inputs.QueuePageInput, self.list_ignored),
            "Jobs.Stats": Method(inputs.StatsInput, self.tell_stats),
        }

    async def list_services(self, asked: inputs.PageInput, _: Asker) -> bytes:
        await caught_up(self.progress, asked.min_seq)
        now = await self.clock.now()
        page = await services.page(self.readers, now=now, offset=asked.offset, limit=asked.limit)
        return page_json(
            services_json(page.entries, room=self.largest_answer()),
            count=page.count,
            offset=asked.offset,
            limit=asked.limit,
            room=self.largest_answer(),
        )

    async def list_ignored(self, asked: inputs.QueuePageInput, _: Asker) -> bytes:
        await caught_up(self.progress, asked.min_seq)
        page = await ignored.page(
            self.readers,
            service=asked.service,
            job_type=asked.type,
            offset=asked.offset,
            limit=asked.limit,
        )
        return page_json(
            [orjson.dumps(each) for each in page.entries],
            count=page.count,
            offset=asked.offset,
            limit=asked.limit,
            room=self.largest_answer(),
        )

    async def tell_stats(self, asked: inputs.StatsInput, _: Asker) -> dict[str, Any]:
        await caught_up(self.progress, asked.min_seq)
        return await stats(
            self.readers,
            now=await self.clock.now(),
            service=asked.service,
            job_type=asked.type,
            window=timedelta(minutes=asked.window_minutes),
        )
