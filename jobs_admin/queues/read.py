"""Read the queues from the server. Only the right to list consumers is needed."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from jobs_admin.api.errors import QueueMissing
from jobs_admin.queues.state import ListedQueue
from trellis_jobs.errors import JobsError
from trellis_jobs.jetstream.work.queues import find_queue, list_queues, oldest_pending

if TYPE_CHECKING:
    from trellis_jobs.jetstream.client.connection import Connection
    from trellis_jobs.jetstream.work.queues import ServerQueue


async def read_queues(connection: Connection) -> list[ListedQueue]:
    queues = await list_queues(connection)
    return await asyncio.gather(*(_with_age(connection, queue) for queue in queues))


async def _with_age(connection: Connection, queue: ServerQueue) -> ListedQueue:
    """Without permission to read messages, the age of the oldest job is not known."""
    try:
        return ListedQueue(queue, await oldest_pending(connection, queue))
    except JobsError:
        return ListedQueue(queue)


async def known_queue(connection: Connection, service: str, job_type: str) -> ServerQueue:
    """Raises QueueMissing, which lists the queues that exist."""
    found = await find_queue(connection, service, job_type)
    if found is None:
        known = [queue.name for queue in await list_queues(connection)]
        raise QueueMissing(f"{service}/{job_type}", known)
    return found
