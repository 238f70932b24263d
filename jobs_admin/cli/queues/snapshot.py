"""Ask the server, and the admin runtime if one answers, about all queues at once."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from jobs_admin.api.client import AdminClient
from jobs_admin.api.views.services import ServiceView
from jobs_admin.cli.queues.rows import Numbers, QueueRow, rows
from trellis_jobs.contract.declaration import ServiceContract
from trellis_jobs.errors import JobsError
from trellis_jobs.jetstream.client.connection import Connection
from trellis_jobs.jetstream.work.queues import ServerQueue, list_queues, oldest_pending

# It is asked twice before it counts as away.
PATIENCE: Final = 0.5
_SERVICES_AT_ONCE: Final = 500


@dataclass(frozen=True, slots=True)
class Looked:
    """`missing`: why the admin runtime told nothing."""

    rows: list[QueueRow]
    numbers: Numbers | None
    missing: str | None


async def look_at_queues(connection: Connection, declared: ServiceContract | None = None) -> Looked:
    (told, missing), queues = await asyncio.gather(numbers(connection), list_queues(connection))
    ages = await asyncio.gather(*(_oldest(connection, queue) for queue in queues))
    oldest = {queue.name: age for queue, age in zip(queues, ages, strict=True)}
    return Looked(rows(queues, oldest, told, declared), told, missing)


async def numbers(connection: Connection) -> tuple[Numbers | None, str | None]:
    """Those of the admin runtime, or why there are none."""
    admin = AdminClient(connection, timeout=PATIENCE)
    try:
        stats, services = await asyncio.gather(
            admin.stats(), admin.list_services(limit=_SERVICES_AT_ONCE)
        )
    except JobsError as error:
        return None, str(error)
    return Numbers(stats, _workers(services.entries)), None


def _workers(services: tuple[ServiceView, ...]) -> dict[str, int]:
    return {
        f"{service.name}/{each.type}": each.live_workers
        for service in services
        for each in service.types
    }


async def _oldest(connection: Connection, queue: ServerQueue) -> datetime | None:
    """Not everybody who may list queues may read what is in them."""
    try:
        return await oldest_pending(connection, queue)
    except JobsError:
        return None
