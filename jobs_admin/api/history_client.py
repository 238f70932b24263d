"""The requests about the past: `admin.history` of a client of the admin runtime."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, TypedDict, Unpack

from jobs_admin.api.contract import Rpcs

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence
    from datetime import datetime

    from jobs_admin.api.rpc_sender import RpcSender
    from jobs_admin.api.views.history import HistoryView, JobsAtView, PastCursor, StatsAtView
    from jobs_admin.api.views.jobs import JobView
    from trellis_jobs.model.states import JobState

HOUR: Final = timedelta(hours=1)
_MINUTE: Final = timedelta(minutes=1)


class QueueArguments(TypedDict, total=False):
    """One service, one type, both, or all queues. `min_seq` is as in lists."""

    service: str | None
    type: str | None
    min_seq: int


@dataclass(frozen=True, slots=True)
class HistoryClient:
    _rpcs: RpcSender

    async def events(
        self,
        since: datetime,
        until: datetime | None = None,
        *,
        step: timedelta = HOUR,
        per_queue: bool = False,
        **queue: Unpack[QueueArguments],
    ) -> HistoryView:
        """Count events in steps of one minute or of whole hours, with the durations of attempts."""
        fields = {"since": since, "until": until, "step_minutes": step // _MINUTE}
        return await self._rpcs.ask(Rpcs.HISTORY, **fields, per_queue=per_queue, **queue)

    async def stats_at(self, at: datetime, **queue: Unpack[QueueArguments]) -> StatsAtView:
        """Count the jobs in each state at a past moment, exact to the minute or the hour."""
        return await self._rpcs.ask(Rpcs.STATS_AT, at=at, **queue)

    async def list_at(
        self,
        at: datetime,
        *,
        state: Sequence[JobState] | None = None,
        limit: int = 50,
        after: PastCursor | None = None,
        **queue: Unpack[QueueArguments],
    ) -> JobsAtView:
        """List jobs as they were at a past moment. A reply may have fewer than `limit`, or none,
        and still have `next_after`: each request looks at a limited number of jobs.
        """
        fields: dict[str, Any] = {"at": at, "limit": limit, "after": after}
        states = None if state is None else list(state)
        return await self._rpcs.ask(Rpcs.LIST_AT, **fields, state=states, **queue)

    async def jobs_at(
        self,
        at: datetime,
        *,
        state: Sequence[JobState] | None = None,
        page: int = 100,
        **queue: Unpack[QueueArguments],
    ) -> AsyncIterator[JobView]:
        """Yield every job once, as it was at a past moment, whatever changes meanwhile."""
        after: PastCursor | None = None
        seen: set[int | None] = set()
        while True:
            part = await self.list_at(at, state=state, limit=page, after=after, **queue)
            for job in part.entries:
                if job.first_seq not in seen:
                    seen.add(job.first_seq)
                    yield job
            after = part.next_after
            if after is None:
                return
