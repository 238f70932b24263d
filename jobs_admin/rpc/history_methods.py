"""The RPCs about the past: what happened over time, and how it was at a moment."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from jobs_admin.api.contract import Rpcs
from jobs_admin.api.views.history import PastCursor
from jobs_admin.reads.history import history
from jobs_admin.reads.past_candidates import PastFilter
from jobs_admin.reads.past_jobs import past_jobs
from jobs_admin.reads.past_stats import check_past, stats_at
from jobs_admin.reads.read_your_writes import wait_for_position
from jobs_admin.rpc.pages import past_jobs_json
from jobs_admin.rpc.router import answered_by
from trellis_jobs.jetstream.log.history import Histories
from trellis_jobs.model.states import JobState

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from jobs_admin.api import history_inputs
    from jobs_admin.api.views.history import HistoryView, StatsAtView
    from jobs_admin.reads.read_your_writes import ProjectionProgress
    from jobs_admin.reads.readers import Readers
    from jobs_admin.rpc.router import Caller, Method
    from trellis_jobs.jetstream.client.connection import Connection
    from trellis_jobs.jetstream.client.server_clock import ServerClock


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryMethods:
    connection: Connection
    readers: Readers
    progress: ProjectionProgress
    clock: ServerClock
    max_reply_bytes: Callable[[], int]

    def table(self) -> Mapping[str, Method]:
        return dict(
            [
                answered_by(Rpcs.HISTORY, self.get_history),
                answered_by(Rpcs.STATS_AT, self.get_stats_at),
                answered_by(Rpcs.LIST_AT, self.list_jobs_at),
            ]
        )

    async def get_history(self, request: history_inputs.HistoryInput, _: Caller) -> HistoryView:
        await wait_for_position(self.progress, request.min_seq)
        return await history(self.readers, request, await self.clock.now())

    async def get_stats_at(self, request: history_inputs.StatsAtInput, _: Caller) -> StatsAtView:
        await wait_for_position(self.progress, request.min_seq)
        return await stats_at(
            self.readers,
            request.at,
            now=await self.clock.now(),
            service=request.service,
            job_type=request.type,
        )

    async def list_jobs_at(self, request: history_inputs.ListAtInput, _: Caller) -> bytes:
        await wait_for_position(self.progress, request.min_seq)
        check_past(request.at, await self.clock.now())
        states = tuple(JobState) if request.state is None else request.state
        after = request.after
        found = await past_jobs(
            self.readers,
            Histories(self.connection, deletes_consumers=True),
            PastFilter(request.at, states, request.service, request.type),
            limit=request.limit,
            after=PastCursor(**after.model_dump()) if after else None,
        )
        return past_jobs_json(found, at=request.at, max_bytes=self.max_reply_bytes())
