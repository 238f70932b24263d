"""What `top` shows: queues, workers, and the health of the admin runtime."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from jobs_admin.api.client import AdminClient
from jobs_admin.api.queue_rates import FAILURES, rate_of
from jobs_admin.api.views.health import HealthView
from jobs_admin.api.views.queues import QueueView
from jobs_admin.cli.queues.snapshot import take_queue_snapshot
from jobs_admin.cli.render.output import present_fields
from trellis_jobs.errors import JobsError
from trellis_jobs.jetstream.client.connection import Connection

# For each of two attempts.
# Seconds for a reply of the admin runtime: of one snapshot, and of one that is refreshed.
ONE_LOOK_TIMEOUT: Final = 5.0
REFRESH_TIMEOUT: Final = 1.0
_LIVE: Final = ("pending", "active", "retry")


@dataclass(frozen=True, slots=True)
class TopSnapshot:
    """`trouble` says why the admin runtime or the server does not answer."""

    at: datetime
    queues: tuple[QueueView, ...]
    health: HealthView | None
    trouble: str | None

    def to_json(self) -> dict[str, Any]:
        body: dict[str, Any] = {"types": [present_fields(queue) for queue in self.queues]}
        optional = {"health": self.health, "trouble": self.trouble}
        return body | {name: value for name, value in optional.items() if value is not None}


def rank(queue: QueueView) -> tuple[float, ...]:
    """Most urgent first: no worker available, then failures, dead jobs, and backlog."""
    live = sum(jobs_in(queue, state) or 0 for state in _LIVE)
    failing = per_minute(queue, *FAILURES) or 0.0
    dead = jobs_in(queue, "dead") or 0
    return -bool(queue.unattended), -failing, -dead, -max(live, queue.waiting)


def jobs_in(queue: QueueView, state: str) -> int | None:
    return None if queue.states is None else queue.states.get(state, 0)


def per_minute(queue: QueueView, *kinds: str) -> float | None:
    if queue.per_minute is None:
        return None
    return rate_of(queue.per_minute, kinds)


async def take_snapshot(
    connection: Connection, *, admin_timeout: float = ONE_LOOK_TIMEOUT
) -> TopSnapshot:
    admin = AdminClient(connection, timeout=admin_timeout)
    found, health = await asyncio.gather(
        take_queue_snapshot(connection, admin, with_ended=True), _health(admin)
    )
    return TopSnapshot(datetime.now(UTC), tuple(found.queues), health, found.admin_error)


async def _health(admin: AdminClient) -> HealthView | None:
    try:
        return await admin.health()
    except JobsError:
        return None
