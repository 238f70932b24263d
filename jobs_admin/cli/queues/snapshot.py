"""The state of all queues, from the admin runtime if one answers, otherwise from the server."""

from __future__ import annotations

from dataclasses import dataclass, replace

from jobs_admin.api.client import AdminClient
from jobs_admin.api.views.queues import QueueView
from jobs_admin.api.worker_filter import WorkerFilter
from jobs_admin.cli.admin_or_server import ask_admin_or_server
from jobs_admin.queues.read import read_queues
from jobs_admin.queues.state import compare_with_code, queue_views, with_workers, without_ended
from jobs_admin.workers.directives import open_directives
from trellis_jobs.contract.declaration import ServiceContract
from trellis_jobs.errors import InfrastructureError, JobsError, NotConfirmed
from trellis_jobs.jetstream.client.connection import Connection


@dataclass(frozen=True, slots=True)
class QueueSnapshot:
    """`admin_error` says why the facts of the admin runtime are missing."""

    queues: list[QueueView]
    admin_error: str | None = None


async def take_queue_snapshot(
    connection: Connection,
    admin: AdminClient,
    declared: ServiceContract | None = None,
    *,
    with_ended: bool = False,
) -> QueueSnapshot:
    """A comparison with `declared` reads the consumers from the server in any case."""

    async def from_admin() -> QueueSnapshot:
        return QueueSnapshot([queue async for queue in admin.queues(with_ended=True)])

    async def from_server(error: JobsError) -> QueueSnapshot:
        queues = queue_views(await read_queues(connection), None)
        return QueueSnapshot(await _with_records(connection, queues), str(error))

    found = await ask_admin_or_server(from_admin(), from_server)
    queues = found.queues
    if declared is not None:
        queues = compare_with_code(queues, await read_queues(connection), declared)
    return replace(found, queues=queues if with_ended else without_ended(queues))


async def _with_records(connection: Connection, queues: list[QueueView]) -> list[QueueView]:
    """Without permission to read the records of workers, their numbers are not known."""
    try:
        directives = await open_directives(connection)
        return with_workers(queues, await directives.list_workers(WorkerFilter()))
    except (InfrastructureError, NotConfirmed):
        return queues
