"""Read the state of all queues from the server, and from the admin runtime if one answers."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from jobs_admin.api.client import AdminClient
from jobs_admin.api.views.services import ServiceView
from jobs_admin.cli.queues.rows import AdminStats, QueueRow, queue_rows
from trellis_jobs.contract.declaration import ServiceContract
from trellis_jobs.errors import JobsError
from trellis_jobs.jetstream.client.connection import Connection
from trellis_jobs.jetstream.work.queues import ServerQueue, list_queues, oldest_pending

# The client repeats a request once before it gives up.
ADMIN_TIMEOUT: Final = 0.5
_MAX_SERVICES: Final = 500


@dataclass(frozen=True, slots=True)
class QueueSnapshot:
    """`admin_error` says why `admin` is None."""

    rows: list[QueueRow]
    admin: AdminStats | None
    admin_error: str | None


async def take_queue_snapshot(
    connection: Connection, declared: ServiceContract | None = None
) -> QueueSnapshot:
    (admin, error), queues = await asyncio.gather(admin_stats(connection), list_queues(connection))
    ages = await asyncio.gather(*(_oldest(connection, queue) for queue in queues))
    oldest = {queue.name: age for queue, age in zip(queues, ages, strict=True)}
    return QueueSnapshot(queue_rows(queues, oldest, admin, declared), admin, error)


async def admin_stats(connection: Connection) -> tuple[AdminStats | None, str | None]:
    """The statistics of the admin runtime, or the reason why there are none."""
    admin = AdminClient(connection, timeout=ADMIN_TIMEOUT)
    try:
        stats, services = await asyncio.gather(
            admin.stats(), admin.list_services(limit=_MAX_SERVICES)
        )
    except JobsError as error:
        return None, str(error)
    return AdminStats(stats, _workers(services.entries)), None


def _workers(services: tuple[ServiceView, ...]) -> dict[str, int]:
    return {
        f"{service.name}/{each.type}": each.live_workers
        for service in services
        for each in service.types
    }


async def _oldest(connection: Connection, queue: ServerQueue) -> datetime | None:
    """Returns None without permission to read messages: listing queues does not need it."""
    try:
        return await oldest_pending(connection, queue)
    except JobsError:
        return None
