"""List and direct workers through the admin runtime if one answers, otherwise in their records."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from jobs_admin.api.client import AdminClient
from jobs_admin.api.views.workers import DirectedWorker, WorkerProcessView
from jobs_admin.api.worker_filter import WorkerFilter
from jobs_admin.audit.changes import worker_changes
from jobs_admin.cli.admin_or_server import ask_admin_or_server
from jobs_admin.cli.audit.record import record_changes
from jobs_admin.workers.directives import WantedState, WorkerDirectives, open_directives
from jobs_admin.workers.wait import WorkerId
from trellis_jobs.errors import JobsError
from trellis_jobs.jetstream.client.connection import Connection
from trellis_jobs.jetstream.setup.features import detect_features

T = TypeVar("T")


class WorkerControl:
    """`admin_error` is why the admin runtime was not used, if it was not."""

    def __init__(self, connection: Connection, admin: AdminClient) -> None:
        self._connection = connection
        self._admin = admin
        self._directives: WorkerDirectives | None = None
        self.admin_error: JobsError | None = None

    async def list_workers(self, wanted: WorkerFilter) -> list[WorkerProcessView]:
        async def ask() -> list[WorkerProcessView]:
            return [worker async for worker in self._admin.workers(wanted)]

        return await self._ask(ask, lambda directives: directives.list_workers(wanted))

    async def direct(
        self, workers: Sequence[WorkerId], wanted: WantedState
    ) -> Sequence[DirectedWorker]:
        async def ask() -> Sequence[DirectedWorker]:
            return await self._admin.direct_workers(workers, wanted.state, reason=wanted.reason)

        async def directly(directives: WorkerDirectives) -> Sequence[DirectedWorker]:
            directed = await directives.direct(workers, wanted)
            await record_changes(
                self._connection,
                await detect_features(self._connection),
                worker_changes(wanted.state, directed),
                by=wanted.by,
                reason=wanted.reason,
            )
            return directed

        return await self._ask(ask, directly, is_change=True)

    async def _ask(
        self,
        ask: Callable[[], Awaitable[T]],
        directly: Callable[[WorkerDirectives], Awaitable[T]],
        *,
        is_change: bool = False,
    ) -> T:
        """Once the records had to be used, they are used from then on."""
        if self._directives is not None:
            return await directly(self._directives)

        async def use_records(error: JobsError) -> T:
            directives = await open_directives(self._connection)
            done = await directly(directives)
            self._directives, self.admin_error = directives, error
            return done

        return await ask_admin_or_server(ask(), use_records, is_change=is_change)
