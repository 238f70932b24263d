"""The RPCs about worker processes: list them, and direct them."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

from jobs_admin.api.contract import Rpcs
from jobs_admin.api.views.base import Page
from jobs_admin.api.views.workers import DirectedWorkers, DirectiveOutcome, WorkerProcessView
from jobs_admin.rpc.router import answered_by
from jobs_admin.workers.directives import WantedState
from jobs_admin.workers.views import known_workers
from jobs_admin.workers.wait import worker_id

if TYPE_CHECKING:
    from collections.abc import Mapping

    from jobs_admin.api import inputs
    from jobs_admin.api.worker_filter import WorkerFilter
    from jobs_admin.rpc.router import Caller, Method
    from jobs_admin.workers.directives import WorkerDirectives
    from jobs_admin.workers.registry import WorkerRegistry
    from trellis_jobs.jetstream.client.server_clock import ServerClock

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class WorkerMethods:
    registry: WorkerRegistry
    directives: WorkerDirectives
    clock: ServerClock

    def table(self) -> Mapping[str, Method]:
        return dict(
            [
                answered_by(Rpcs.LIST_WORKERS, self.list_workers),
                answered_by(Rpcs.DIRECT_WORKERS, self.direct_workers),
            ]
        )

    async def list_workers(
        self, request: inputs.WorkersInput, _: Caller
    ) -> Page[WorkerProcessView]:
        found = await self._workers(request.to_filter(request.id_prefix))
        return Page[WorkerProcessView].of(
            found[request.offset : request.offset + request.limit],
            count=len(found),
            offset=request.offset,
            limit=request.limit,
        )

    async def direct_workers(self, request: inputs.DirectInput, caller: Caller) -> DirectedWorkers:
        by = request.by or caller.session or "operator"
        if request.workers is None:
            chosen = await self.directives.list_workers(request.to_filter())
            ids = [worker_id(worker) for worker in chosen if not worker.has_ended]
        else:
            ids = [(worker.service, worker.instance_id) for worker in request.workers]
        wanted = WantedState(state=request.state, by=by, reason=request.reason)
        directed = await self.directives.direct(ids, wanted)
        count = sum(each.outcome is DirectiveOutcome.DIRECTED for each in directed)
        log.info(
            "%s directed %d of %d selected workers to be %s%s",
            by,
            count,
            len(directed),
            request.state,
            f": {request.reason}" if request.reason else "",
        )
        return DirectedWorkers(workers=tuple(directed))

    async def _workers(self, wanted: WorkerFilter) -> list[WorkerProcessView]:
        """From the registry. In the first moment after a start it is not complete."""
        if not self.registry.is_complete:
            return await self.directives.list_workers(wanted)
        return wanted.select(known_workers(self.registry, await self.clock.now()))
