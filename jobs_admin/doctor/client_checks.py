"""The checks of a client of the installation: its connection, permissions, and admin runtime."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from jobs_admin.api.worker_filter import WorkerFilter
from jobs_admin.doctor import rules
from jobs_admin.doctor.alarm_rules import check_alarms, read_alarms
from jobs_admin.doctor.findings import broken, fine, note, warning
from jobs_admin.doctor.worker_rules import check_worker_records
from jobs_admin.workers.directives import open_directives
from trellis_jobs.environment import own_version, utc_now
from trellis_jobs.errors import (
    InboxNotPermitted,
    InfrastructureError,
    JobsError,
    NoAnswer,
    NotConfirmed,
    NotPermitted,
    ServiceMissing,
)
from trellis_jobs.jetstream.client import server_info
from trellis_jobs.jetstream.setup.permission_probe import probe_permissions
from trellis_jobs.jetstream.work.queues import list_queues

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from jobs_admin.api.client import AdminClient
    from jobs_admin.api.views.doctor import Finding
    from jobs_admin.api.views.queues import QueueView
    from jobs_admin.api.views.services import WorkerView
    from jobs_admin.doctor.checks import CheckStep, Installation

_MAX_SERVICES: Final = 20
_NO_DAEMON: Final = (
    "run `trellis-jobs admin serve`: without it, deadlines are not enforced and lost work is not "
    "recovered"
)
_HANGING_DAEMON: Final = (
    "restart the admin runtime that does not answer, or give it more CPU; its log shows its last "
    "steps, and jobs run without it"
)
_NO_PERMISSION: Final = (
    "use credentials that may at least send requests to the admin runtime (rpc.v1.Jobs.Health): "
    "`trellis-jobs permissions --operator NAME=read` prints their permissions"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientChecks:
    """`services` are probed for the permission to create their jobs, besides those of queues."""

    installation: Installation
    admin: AdminClient
    queues: Callable[[], Awaitable[Sequence[QueueView]]]
    services: frozenset[str] = frozenset()

    def steps(self) -> dict[str, CheckStep]:
        """The checks by section, in the order in which they are shown."""
        of_server = self.installation.server_checks()
        return {
            "connection": self._connection,
            "server": of_server["server"],
            "streams": of_server["streams"],
            "queues": self._queues,
            "alarms": self._alarms,
            "readers": of_server["readers"],
            "permissions": self._permissions,
            "admin": self._admin,
            "clock": of_server["clock"],
        }

    async def _connection(self) -> list[Finding]:
        connection = self.installation.connection
        account = await server_info.account_of(connection)
        of_account = f", account {account}" if account else ""
        encrypted = "encrypted" if connection.is_encrypted else "not encrypted"
        return [
            fine(f"{connection.address}, {encrypted}"),
            fine(f"{self.installation.access.identity()}{of_account}"),
            rules.check_round_trip(await connection.round_trip()),
        ]

    async def _queues(self) -> list[Finding]:
        return rules.check_queues(await self.queues())

    async def _alarms(self) -> list[Finding]:
        return check_alarms(await read_alarms(self.installation.connection, await self.queues()))

    async def _permissions(self) -> list[Finding]:
        connection, features = self.installation.connection, self.installation.features
        found = await probe_permissions(connection, features, await self._services())
        return rules.check_abilities(found)

    async def _services(self) -> list[str]:
        """Asks the server first: it answers at once, also while the admin runtime hangs."""
        try:
            of_queues = {each.service for each in await list_queues(self.installation.connection)}
        except NotPermitted:
            of_queues = await self._services_from_admin()
        except JobsError:
            of_queues = set()
        return sorted(self.services | of_queues)[:_MAX_SERVICES]

    async def _services_from_admin(self) -> set[str]:
        try:
            return {queue.service for queue in await self.queues()}
        except JobsError:
            return set()

    async def _admin(self) -> list[Finding]:
        try:
            health = await self.admin.health()
        except ServiceMissing:
            return [warning("no admin runtime answers", _NO_DAEMON), *await self._stored_records()]
        except NoAnswer as error:
            if not self.installation.connection.is_connected:
                raise
            return [broken(str(error), _HANGING_DAEMON)]
        except InboxNotPermitted:
            raise
        except NotPermitted as denied:
            return [warning(f"not checked: {denied}", _NO_PERMISSION)]
        version = rules.check_version(own_version(), health.version)
        return [*rules.check_health(health), version, *await self._workers()]

    async def _workers(self) -> list[Finding]:
        """Empty if these credentials may read the health but not the workers."""
        try:
            services = [service async for service in self.admin.services()]
        except NotPermitted:
            return []
        except NoAnswer as error:
            return [note(f"workers not checked: {error}")]
        workers = [worker for each in services for worker in each.workers]
        return [
            *rules.check_workers(workers),
            *rules.check_worker_clocks(workers),
            *await self._records(workers),
        ]

    async def _stored_records(self) -> list[Finding]:
        """Empty if these credentials may not read the records of workers."""
        try:
            directives = await open_directives(self.installation.connection)
            processes = await directives.list_workers(WorkerFilter())
        except (InfrastructureError, NotConfirmed):
            return []
        return check_worker_records(processes, [], utc_now())

    async def _records(self, heartbeats: list[WorkerView]) -> list[Finding]:
        """Empty if the admin runtime is older, or these credentials may not list workers."""
        try:
            processes = [process async for process in self.admin.workers()]
        except JobsError:
            return []
        return check_worker_records(processes, heartbeats, utc_now())
