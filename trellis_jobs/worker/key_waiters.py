"""The deliveries that wait in this process for one key, oldest job first."""

from __future__ import annotations

import asyncio
import bisect
from dataclasses import dataclass
from typing import TYPE_CHECKING

from trellis_jobs.model.keys.lease_observer import LeaseObserver

if TYPE_CHECKING:
    from datetime import datetime

    from trellis_jobs.jetstream.work.delivery import Delivery
    from trellis_jobs.jetstream.work.lease_keeper import Lease
    from trellis_jobs.model.keys.state import KeyState, Waiting
    from trellis_jobs.model.keys.template import JobKey
    from trellis_jobs.worker.end_watch import EndWatch


@dataclass(eq=False, slots=True)
class ParkedDelivery:
    """A waiting delivery. Its lease is renewed, but it uses no slot, no try and no task.

    `since` is when it arrived, in seconds of uptime. `seen_idle` is True once the key was read
    without a slot of this job, so the job did not run anywhere at that time.
    """

    delivery: Delivery
    waiting: Waiting
    since: float
    seen_idle: bool = False
    end_watch: EndWatch | None = None

    @property
    def lease(self) -> Lease:
        return self.delivery.lease

    @property
    def job_id(self) -> str:
        return self.waiting.job_id

    @property
    def deadline(self) -> datetime | None:
        return self.delivery.head.status.deadline

    def replace_delivery(self, delivery: Delivery) -> None:
        """Keeps only the newer delivery of a job that was delivered again."""
        if delivery.delivered.supersedes(self.delivery.delivered):
            delivery.lease, self.lease.reply = self.lease, delivery.reply
            self.delivery = delivery
            self.seen_idle = False


class KeyWaiters:
    """`entering` is the delivery that is trying to get a slot of the key."""

    def __init__(self, key: JobKey) -> None:
        self.key = key
        self.parked: list[ParkedDelivery] = []
        self.entering: ParkedDelivery | None = None
        self.leases = LeaseObserver()
        self.free_since: float | None = None
        self.cleaned_at: float | None = None
        self.ends_checked_at: float | None = None
        self._changed = asyncio.Event()

    def add(self, parked: ParkedDelivery) -> None:
        bisect.insort(self.parked, parked, key=lambda other: other.waiting.created_at)
        self.notify()

    def remove(self, parked: ParkedDelivery) -> bool:
        """Returns False if it was removed before."""
        if parked not in self.parked:
            return False
        self.parked.remove(parked)
        return True

    def find(self, job_id: str) -> ParkedDelivery | None:
        return next((parked for parked in self.parked if parked.job_id == job_id), None)

    def missing_from(self, state: KeyState) -> list[ParkedDelivery]:
        """Returns deliveries whose job is not in the state of the key, so it may be over."""
        known = {slot.job_id for slot in state.active} | {each.job_id for each in state.queued}
        return [parked for parked in self.parked if parked.job_id not in known]

    def reset_leases(self) -> None:
        """Observes all leases from the start: holders could not renew them during an outage."""
        self.leases = LeaseObserver()

    def observe(self, state: KeyState, monotonic: float) -> None:
        self.leases = self.leases.observe(state, monotonic)
        holders = {slot.job_id for slot in state.active}
        for parked in self.parked:
            parked.seen_idle = parked.seen_idle or parked.job_id not in holders
        if state.free == 0:
            self.free_since = None
        elif self.free_since is None:
            self.free_since = monotonic

    def notify(self) -> None:
        self._changed.set()

    def clear_notification(self) -> None:
        """Called before the state is read, so that later changes end the next wait."""
        self._changed.clear()

    async def wait_for_change(self, seconds: float) -> bool:
        """Returns True if the key changed, False after `seconds`."""
        try:
            async with asyncio.timeout(seconds):
                return await self._changed.wait()
        except TimeoutError:
            return False
