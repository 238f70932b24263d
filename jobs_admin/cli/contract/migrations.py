"""What applying a service's contract would change for jobs that are on their way."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from jobs_admin.cli.contract.diff import change_json, change_table
from jobs_admin.cli.contract.documents import told_by_server
from jobs_admin.cli.exit_codes import Missing
from jobs_admin.cli.queues.rows import QueueRow
from jobs_admin.cli.queues.snapshot import look_at_queues
from jobs_admin.cli.render.output import console, say
from trellis_jobs.contract.changes import ContractChange, Weight, changes, is_migration
from trellis_jobs.contract.declaration import ServiceContract
from trellis_jobs.contract.manifest import to_manifest
from trellis_jobs.errors import InfrastructureMissing
from trellis_jobs.jetstream.client.connection import Connection
from trellis_jobs.model.states import LIVE

# How many, by queue and then by state.
Outstanding = Mapping[str, Mapping[str, int]]


@dataclass(frozen=True, slots=True)
class Step:
    """From what the server was told to what is declared now.

    `outstanding`: jobs of each queue that a migration touches, by state; without an admin runtime
    only how many wait, and how many were delivered and are not done.
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
            told = ", ".join(f"{count} {state}" for state, count in counts.items() if count)
            say(f"{queue} has {told or 'no jobs'} on their way")


async def step_to(connection: Connection, contract: ServiceContract) -> Step:
    """Nothing, where the server was told nothing: then there are no jobs either."""
    now = to_manifest(contract)
    try:
        was = await told_by_server(connection, now)
    except (Missing, InfrastructureMissing):
        return Step((), {})
    found = changes(was, now)
    touched = {each.queue for each in found if each.weight is Weight.MIGRATION}
    return Step(found, await _outstanding(connection, contract.service, touched))


async def _outstanding(connection: Connection, service: str, touched: set[str]) -> Outstanding:
    if not touched:
        return {}
    looked = await look_at_queues(connection)
    return {
        row.name: _counts(row)
        for row in looked.rows
        if row.service == service and row.job_type in touched
    }


def _counts(row: QueueRow) -> dict[str, int]:
    if row.stats is not None:
        return {state.value: row.stats.states.get(state.value, 0) for state in sorted(LIVE)}
    if row.queue is None:
        return {}
    return {"waiting": row.queue.consumer.pending, "delivered": row.queue.consumer.ack_pending}
