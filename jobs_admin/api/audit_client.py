"""The requests about what operators did: `admin.audit` of a client of the admin runtime."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypedDict, Unpack

from jobs_admin.api.contract import Rpcs

if TYPE_CHECKING:
    from datetime import datetime

    from jobs_admin.api.rpc_sender import RpcSender
    from jobs_admin.api.views.audit import AuditPage


class AuditArguments(TypedDict, total=False):
    """Which entries. An argument that is None or missing does not restrict them."""

    by: str | None
    verb: str | None
    target: str | None
    service: str | None
    type: str | None
    since: datetime | None
    until: datetime | None
    offset: int
    limit: int
    min_seq: int


@dataclass(frozen=True, slots=True)
class AuditClient:
    _rpcs: RpcSender

    async def list(self, **arguments: Unpack[AuditArguments]) -> AuditPage:
        """List what operators did, newest first."""
        return await self._rpcs.page(Rpcs.LIST_AUDIT, **arguments)
