"""Pause and resume a queue. The consumer on the server is paused, so no admin runtime is needed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from jobs_admin.api.views.queues import ChangedQueue
from jobs_admin.queues.read import known_queue
from trellis_jobs.errors import InfrastructureError
from trellis_jobs.jetstream.work import queues as server_queues
from trellis_jobs.jetstream.work.consumer_info import ENDLESS_PAUSE

if TYPE_CHECKING:
    from datetime import timedelta

    from trellis_jobs.contract.features import Features
    from trellis_jobs.jetstream.client.connection import Connection


@dataclass(frozen=True, slots=True)
class QueueActions:
    connection: Connection
    features: Features

    async def pause(
        self,
        service: str,
        job_type: str,
        *,
        reason: str,
        by: str,
        duration: timedelta | None = None,
    ) -> ChangedQueue:
        """Stop workers from starting jobs of the queue. Without a duration, until it is resumed.

        The pause is more important than its reason, so it stays if the reason cannot be recorded.
        """
        queue = await known_queue(self.connection, service, job_type)
        until = queue.consumer.at + (ENDLESS_PAUSE if duration is None else duration)
        await server_queues.pause(self.connection, self.features, queue, until)
        problem = None
        try:
            await server_queues.note_pause(self.connection, queue, reason, by)
        except InfrastructureError as error:
            problem = str(error)
        return ChangedQueue(
            service=service,
            type=job_type,
            paused=True,
            was_paused=queue.consumer.is_paused,
            depth=queue.consumer.pending,
            in_flight=queue.consumer.ack_pending,
            paused_until=None if duration is None else until,
            reason_error=problem,
        )

    async def resume(self, service: str, job_type: str) -> ChangedQueue:
        """Let workers start jobs of the queue again. Does nothing if it is not paused."""
        queue = await known_queue(self.connection, service, job_type)
        await server_queues.resume(self.connection, self.features, queue)
        return ChangedQueue(
            service=service,
            type=job_type,
            paused=False,
            was_paused=queue.consumer.is_paused,
            depth=queue.consumer.pending,
            in_flight=queue.consumer.ack_pending,
        )
