"""What applying a service's contract would change for its unfinished jobs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from jobs_admin.api.client import AdminClient
from jobs_admin.api.views.queues import QueueView
from jobs_admin.cli.contract.diff import change_json, change_table
from jobs_admin.cli.contract.documents import server_manifest
from jobs_admin.cli.exit_codes import Missing
from jobs_admin.cli.queues.snapshot import take_queue_snapshot
from jobs_admin.cli.render.output import console, print_stderr
from trellis_jobs.contract.change_rules import ChangeClass
from trellis_jobs.contract.changes import ContractChange, changes, is_migration
from trellis_jobs.contract.declaration import ServiceContract
from trellis_jobs.contract.manifest import to_manifest
from trellis_jobs.errors import InfrastructureMissing
from trellis_jobs.jetstream.client.connection import Connection
from trellis_jobs.model.states import LIVE

# For each of two attempts.
_ADMIN_TIMEOUT: Final = 3.0
# The number of jobs by queue and then by state.
Outstanding = Mapping[str, Mapping[str, int]]


@dataclass(frozen=True, slots=True)
class ContractUpdate:
    """The changes from the contract on the server to the one that is declared now.

    `outstanding` counts the unfinished jobs of each queue that a migration affects, by state.
    Without an admin runtime it has only the number of waiting and of delivered jobs.
    """

    changes: Sequence[ContractChange]
    outstanding: Outstanding

    @property
    def is_migration(self) -> bool:
        return is_migration(self.changes)

    def to_json(self) -> dict[str, Any]:
        return {
            "migration": self.is_migration,
            "changes": [change_json(each) for each in self.changes],
            "outstanding": self.outstanding,
        }

    def show(self) -> None:
        if self.changes:
            console().print(change_table(self.changes))
        for queue, counts in self.outstanding.items():
            jobs = ", ".join(f"{count} {state}" for state, count in counts.items() if count)
            print_stderr(f"unfinished jobs of {queue}: {jobs or 'none'}")


async def contract_update(connection: Connection, contract: ServiceContract) -> ContractUpdate:
    """No changes if the server has no contract: then no worker has run, and nothing is affected."""
    now = to_manifest(contract)
    try:
        was = await server_manifest(connection, now)
    except (Missing, InfrastructureMissing):
        return ContractUpdate((), {})
    found = changes(was, now)
    affected = {each.queue for each in found if each.change_class is ChangeClass.MIGRATION}
    return ContractUpdate(found, await _outstanding(connection, contract.service, affected))


async def _outstanding(connection: Connection, service: str, affected: set[str]) -> Outstanding:
    if not affected:
        return {}
    snapshot = await take_queue_snapshot(
        connection, AdminClient(connection, timeout=_ADMIN_TIMEOUT)
    )
    return {
        queue.name: _counts(queue)
        for queue in snapshot.queues
        if queue.service == service and queue.type in affected
    }


def _counts(queue: QueueView) -> dict[str, int]:
    if queue.states is not None:
        return {state.value: queue.states.get(state.value, 0) for state in sorted(LIVE)}
    if queue.depth is None or queue.in_flight is None:
        return {}
    return {"waiting": queue.depth, "delivered": queue.in_flight}
