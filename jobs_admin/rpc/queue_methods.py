"""The RPCs about queues, from the server's current state."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from jobs_admin.api.contract import Rpcs
from jobs_admin.api.error_envelope import NotFound
from jobs_admin.api.errors import QueueMissing
from jobs_admin.api.views.base import Page
from jobs_admin.api.views.queues import QueueView
from jobs_admin.reads.read_your_writes import wait_for_position
from jobs_admin.rpc.router import answered_by

if TYPE_CHECKING:
    from collections.abc import Mapping

    from jobs_admin.api import inputs
    from jobs_admin.api.views.queues import ChangedQueue
    from jobs_admin.queues.actions import QueueActions
    from jobs_admin.reads.read_your_writes import ProjectionProgress
    from jobs_admin.rpc.queue_facts import QueueFacts
    from jobs_admin.rpc.router import Caller, Method

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueMethods:
    facts: QueueFacts
    progress: ProjectionProgress
    actions: QueueActions

    def table(self) -> Mapping[str, Method]:
        return dict(
            [
                answered_by(Rpcs.LIST_QUEUES, self.list_queues),
                answered_by(Rpcs.PAUSE_QUEUE, self.pause),
                answered_by(Rpcs.RESUME_QUEUE, self.resume),
            ]
        )

    async def list_queues(self, request: inputs.QueuesInput, _: Caller) -> Page[QueueView]:
        """While the projection is rebuilt, the queues have only the server's facts."""
        await wait_for_position(self.progress, request.min_seq)
        queues = [
            queue
            for queue in await self.facts.queues(with_ended=request.with_ended)
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
