"""What `top` shows: queues, workers, and the health of the admin runtime."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from jobs_admin.api.client import AdminClient
from jobs_admin.api.views.health import HealthView
from jobs_admin.api.views.services import TypeStats
from jobs_admin.cli.queues.rows import QueueRow
from jobs_admin.cli.queues.snapshot import (
    ADMIN_TIMEOUT,
    QueueSnapshot,
    admin_stats,
    take_queue_snapshot,
)
from trellis_jobs.errors import JobsError, NotPermitted
from trellis_jobs.jetstream.client.connection import Connection

FAILURES: Final = ("retry", "failed", "dead", "stale")


@dataclass(frozen=True, slots=True)
class TypeSnapshot:
    """One job type: the state of its queue, and the statistics of the admin runtime."""

    name: str
    row: QueueRow | None
    stats: TypeStats | None
    workers: int | None

    @property
    def rank(self) -> tuple[float, ...]:
        """Most urgent first: no worker available, then failures, dead jobs, and backlog."""
        is_unattended = self.row is not None and self.row.is_unattended
        live = sum(self.state(state) or 0 for state in ("pending", "active", "retry"))
        waiting = self.row.waiting if self.row else 0
        failing = self.per_minute(*FAILURES) or 0.0
        return -is_unattended, -failing, -(self.state("dead") or 0), -max(live, waiting)

    def state(self, state: str) -> int | None:
        return None if self.stats is None else self.stats.states.get(state, 0)

    def per_minute(self, *kinds: str) -> float | None:
        if self.stats is None:
            return None
        return round(sum(self.stats.per_minute.get(kind, 0.0) for kind in kinds), 2)

    def to_json(self, now: datetime) -> dict[str, Any]:
        service, _, job_type = self.name.partition("/")
        body = self.row.to_json(now) if self.row else {"service": service, "type": job_type}
        if self.stats is not None:
            body |= {"states": self.stats.states, "perMinute": self.stats.per_minute}
        return body if self.workers is None else {**body, "workers": self.workers}


@dataclass(frozen=True, slots=True)
class TopSnapshot:
    """`trouble` says why the admin runtime or the server does not answer."""

    at: datetime
    types: tuple[TypeSnapshot, ...]
    health: HealthView | None
    trouble: str | None

    def to_json(self) -> dict[str, Any]:
        body: dict[str, Any] = {"types": [each.to_json(self.at) for each in self.types]}
        optional = {"health": self.health, "trouble": self.trouble}
        return body | {name: value for name, value in optional.items() if value is not None}


async def take_snapshot(connection: Connection) -> TopSnapshot:
    admin = AdminClient(connection, timeout=ADMIN_TIMEOUT)
    queues, health = await asyncio.gather(_queues(connection), _health(admin))
    rows = {row.name: row for row in queues.rows}
    types = queues.admin.stats.types if queues.admin else ()
    stats = {f"{each.service}/{each.type}": each for each in types}
    found = tuple(
        TypeSnapshot(
            name,
            rows.get(name),
            rows[name].stats if name in rows else stats[name],
            None if queues.admin is None else queues.admin.workers.get(name, 0),
        )
        for name in sorted(rows.keys() | stats.keys())
    )
    return TopSnapshot(datetime.now(UTC), found, health, queues.admin_error)


async def _queues(connection: Connection) -> QueueSnapshot:
    """Without permission to read consumers, show what the admin runtime knows."""
    try:
        return await take_queue_snapshot(connection)
    except NotPermitted:
        stats, error = await admin_stats(connection)
        if stats is None:
            raise
        return QueueSnapshot([], stats, error)


async def _health(admin: AdminClient) -> HealthView | None:
    try:
        return await admin.health()
    except JobsError:
        return None
