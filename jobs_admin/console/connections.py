"""The connections of the console to NATS: one per role, so that the server enforces the roles."""

from __future__ import annotations

from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from jobs_admin.api.client import AdminClient
from jobs_admin.console.users import Role, User
from trellis_jobs.jetstream.client.connection import Connection

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from trellis_jobs.jetstream.client.connect_options import ConnectOptions

READ_TIMEOUT: Final = 3.0


class RoleMissing(Exception):
    """The user has not this role, or the console has no credentials for it."""

    def __init__(self, role: Role, *, is_configured: bool) -> None:
        self.role = role
        what = (
            f"you have not the role {role}: ask the person who runs this console for it"
            if is_configured
            else f"this console has no credentials for the role {role}: start it with them"
        )
        super().__init__(what)


@dataclass(frozen=True, slots=True)
class Connections:
    """`by_role` always has the viewer's connection; roles may share one."""

    by_role: Mapping[Role, Connection]

    def available(self, user: User) -> frozenset[Role]:
        """The roles that the user has and that the console has credentials for."""
        return user.roles & self.by_role.keys()

    def client(self, user: User, role: Role, request_id: str | None = None) -> AdminClient:
        """`request_id` is that of the browser's request. Raises RoleMissing."""
        if role not in self.available(user):
            raise RoleMissing(role, is_configured=role in self.by_role)
        return AdminClient(
            self.by_role[role], by=user.name, read_timeout=READ_TIMEOUT, request_id=request_id
        )

    @property
    def viewer(self) -> Connection:
        return self.by_role[Role.VIEWER]


@asynccontextmanager
async def open_connections(options: Mapping[Role, ConnectOptions]) -> AsyncIterator[Connections]:
    """Open one connection for each distinct set of credentials."""
    async with AsyncExitStack() as opened:
        connections: dict[ConnectOptions, Connection] = {}
        for access in dict.fromkeys(options.values()):
            connection = await Connection.open(access, name="jobs console")
            opened.push_async_callback(connection.close)
            connections[access] = connection
        yield Connections({role: connections[access] for role, access in options.items()})
