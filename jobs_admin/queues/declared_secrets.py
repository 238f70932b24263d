"""The secret fields of a queue's payloads, as its workers published them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jobs_admin.api.errors import ContractMissing
from jobs_admin.queues.contract import published_contract
from trellis_jobs.errors import DeclarationError
from trellis_jobs.jetstream.work.queues import find_queue

if TYPE_CHECKING:
    from trellis_jobs.jetstream.client.connection import Connection


async def declared_secrets(connection: Connection, service: str, job_type: str) -> tuple[str, ...]:
    """Empty if the contract is not known: jobs and schedules name the secrets of their time."""
    queue = await find_queue(connection, service, job_type)
    try:
        return () if queue is None else published_contract(queue).payload.secrets
    except (ContractMissing, DeclarationError):
        return ()
