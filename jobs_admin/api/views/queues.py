"""Queues: their backlog, their workers, and whether they are paused."""

from __future__ import annotations

from datetime import datetime
from typing import Final

from jobs_admin.api.views.base import View

_WAITING: Final = ("pending", "retry")


class QueueView(View):
    """A queue, as its consumer on the server and the projection describe it.

    `depth` counts jobs that were not delivered yet, `in_flight` jobs that were delivered and not
    settled, and `free_slots` the jobs that workers have requested and not received. These and the
    other fields of the consumer are None when the server has no consumer of the queue, because no
    worker of it was ever started.
    `paused_until` is None also for a pause that lasts until the queue is resumed.

    `states`, `per_minute` and `workers` come from the projection, and are None without it.
    `worker_slots` (of workers that take jobs), `running_workers` and `quiet_workers` (quiet or
    stopping) come from the records of workers, and are None without them.
    `unattended`: there are jobs to run, and no worker for them. `drift` says in which settings the
    consumer differs from the contract of the queue.
    """

    service: str
    type: str
    depth: int | None = None
    in_flight: int | None = None
    free_slots: int | None = None
    ack_wait_ms: int | None = None
    paused: bool | None = None
    delivery_limit: int | None = None
    pause_reason: str | None = None
    paused_by: str | None = None
    paused_until: datetime | None = None
    unattended: bool | None = None
    oldest_at: datetime | None = None
    oldest_age_ms: int | None = None
    states: dict[str, int] | None = None
    per_minute: dict[str, float] | None = None
    workers: int | None = None
    worker_slots: int | None = None
    running_workers: int | None = None
    quiet_workers: int | None = None
    drift: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return f"{self.service}/{self.type}"

    @property
    def waiting(self) -> int:
        """Jobs that were not delivered yet; without a consumer, the projection's count."""
        if self.depth is not None:
            return self.depth
        return sum((self.states or {}).get(state, 0) for state in _WAITING)

    @property
    def delayed(self) -> int:
        """Jobs that wait for their time, as far as the projection is there to count them."""
        return (self.states or {}).get("scheduled", 0)


class ChangedQueue(View):
    """A queue after it was paused or resumed; `was_paused` is its state before.

    `reason_error` says why the reason of a pause could not be recorded.
    """

    service: str
    type: str
    paused: bool
    was_paused: bool
    depth: int
    in_flight: int
    paused_until: datetime | None = None
    reason_error: str | None = None

    @property
    def name(self) -> str:
        return f"{self.service}/{self.type}"
