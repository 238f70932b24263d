"""The requests with which operators create jobs, as methods: `admin.creation.create(…)`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

from jobs_admin.api.contract import Rpcs
from jobs_admin.api.errors import Unexpected

if TYPE_CHECKING:
    from datetime import datetime

    from jobs_admin.api.rpc_sender import RpcSender
    from jobs_admin.api.views.creation import (
        ContractView,
        CreatedJobView,
        CreationPreview,
        PayloadTemplate,
    )


class CreateArguments(TypedDict, total=False):
    """`run_at` or `delay_ms` is when the job may run. None means the queue's, or none.

    `payload_version` is that of a payload that was taken from another job.
    """

    id: str | None
    payload_version: int | None
    deadline: datetime | None
    run_at: datetime | None
    delay_ms: int | None
    max_tries: int | None
    timeout_ms: int | None
    visibility_ms: int | None
    reason: str | None


@dataclass(frozen=True, slots=True)
class CreationClient:
    _rpcs: RpcSender

    async def contract(self, service: str, type: str) -> ContractView:
        """The contract of a queue, as its workers published it."""
        return (await self._rpcs.ask(Rpcs.GET_CONTRACT, service=service, type=type)).contract

    async def recent_payloads(
        self, service: str, type: str, *, limit: int = 10
    ) -> tuple[PayloadTemplate, ...]:
        """The payloads of the newest jobs, without secrets, each once."""
        fields = {"service": service, "type": type, "limit": limit}
        return (await self._rpcs.ask(Rpcs.RECENT_PAYLOADS, **fields)).payloads

    async def preview(
        self, service: str, type: str, payload: Any, **options: Unpack[CreateArguments]
    ) -> CreationPreview:
        """Check a job, and say what would become of it if it were created now."""
        fields: dict[str, Any] = {**_fields(service, type, payload), **options, "dry_run": True}
        reply = await self._rpcs.read(Rpcs.CREATE, fields)
        if reply.preview is None:
            raise Unexpected("the reply to Jobs.Create has no preview")
        return reply.preview

    async def create(
        self, service: str, type: str, payload: Any, **options: Unpack[CreateArguments]
    ) -> CreatedJobView:
        """Create a job. Raises Invalid, whose issues name the fields.

        With an `id`, a request that got no reply may be repeated: it creates no second job.
        """
        fields: dict[str, Any] = {**_fields(service, type, payload), **options}
        reply = await self._rpcs.ask(Rpcs.CREATE, **fields)
        if reply.created is None:
            raise Unexpected("the reply to Jobs.Create says nothing about a job")
        return reply.created


def _fields(service: str, type: str, payload: Any) -> dict[str, Any]:
    return {"service": service, "type": type, "payload": payload}
