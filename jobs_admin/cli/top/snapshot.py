"""What `top` shows, asked for at once: queues, workers, how the admin runtime fares."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from jobs_admin.api.client import AdminClient
from jobs_admin.api.views.health import HealthView
from jobs_admin.api.views.services import TypeStats
from jobs_admin.cli.queues.rows import QueueRow
from jobs_admin.cli.queues.snapshot import PATIENCE, Looked, look_at_queues, numbers
from trellis_jobs.errors import JobsError, NotPermitted
from trellis_jobs.jetstream.client.connection import Connection

FAILURES: Final = ("retry", "failed", "dead", "stale")


@dataclass(frozen=True, slots=True)
class TypeSight:
    """One job type: from its consumer on the server, and from the admin runtime's numbers."""

    name: str
    row: QueueRow | None
    stats: TypeStats | None
    workers: int | None

    @property
    def rank(self) -> tuple[float, ...]:
        """What burns comes first: work that nobody does, what fails, what died, what goes on."""
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
        told = self.row.to_json(now) if self.row else {"service": service, "type": job_type}
        if self.stats is not None:
            told |= {"states": self.stats.states, "perMinute": self.stats.per_minute}
        return told if self.workers is None else {**told, "workers": self.workers}


@dataclass(frozen=True, slots=True)
class Sight:
    """`trouble`: why there is nothing from the admin runtime, or nothing new at all."""

    at: datetime
    types: tuple[TypeSight, ...]
    health: HealthView | None
    trouble: str | None

    def to_json(self) -> dict[str, Any]:
        told: dict[str, Any] = {"types": [each.to_json(self.at) for each in self.types]}
        more = {"health": self.health, "trouble": self.trouble}
        return told | {name: value for name, value in more.items() if value is not None}


async def see(connection: Connection) -> Sight:
    admin = AdminClient(connection, timeout=PATIENCE)
    looked, health = await asyncio.gather(_look(connection), _health(admin))
    rows = {row.name: row for row in looked.rows}
    types = looked.numbers.stats.types if looked.numbers else ()
    stats = {f"{each.service}/{each.type}": each for each in types}
    seen = tuple(
        TypeSight(
            name,
            rows.get(name),
            rows[name].stats if name in rows else stats[name],
            None if looked.numbers is None else looked.numbers.workers.get(name, 0),
        )
        for name in sorted(rows.keys() | stats.keys())
    )
    return Sight(datetime.now(UTC), seen, health, looked.missing)


async def _look(connection: Connection) -> Looked:
    """An operator may have no rights but to ask the admin runtime: that is enough for most."""
    try:
        return await look_at_queues(connection)
    except NotPermitted:
        told, missing = await numbers(connection)
        if told is None:
            raise
        return Looked([], told, missing)


async def _health(admin: AdminClient) -> HealthView | None:
    try:
        return await admin.health()
    except JobsError:
        return None
