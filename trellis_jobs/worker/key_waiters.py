"""The deliveries of one key that wait in this process, oldest first."""

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
    from trellis_jobs.worker.end_watch import EndCheck


@dataclass(eq=False, slots=True)
class Parked:
    """A delivery that waits: renewed, but without a seat, a try or a task of its own.

    `since` is when it came, in seconds of uptime. `seen_idle`: since then the key was seen without
    a slot of its job, so the job did not run.
    """

    delivery: Delivery
    waiting: Waiting
    since: float
    seen_idle: bool = False
    end_check: EndCheck | None = None

    @property
    def lease(self) -> Lease:
        return self.delivery.lease

    @property
    def job_id(self) -> str:
        return self.waiting.job_id

    @property
    def deadline(self) -> datetime | None:
        return self.delivery.head.status.deadline

    def meet_again(self, delivery: Delivery) -> None:
        """The job was delivered anew: only the newer delivery counts."""
        if delivery.delivered.supersedes(self.delivery.delivered):
            delivery.lease, self.lease.reply = self.lease, delivery.reply
            self.delivery = delivery
            self.seen_idle = False


class KeyLine:
    """`entering` is the one that tries for the key right now."""

    def __init__(self, key: JobKey) -> None:
        self.key = key
        self.parked: list[Parked] = []
        self.entering: Parked | None = None
        self.sightings = LeaseObserver()
        self.free_since: float | None = None
        self.tidied_at: float | None = None
        self.missed_at: float | None = None
        self._news = asyncio.Event()

    def join(self, parked: Parked) -> None:
        bisect.insort(self.parked, parked, key=lambda other: other.waiting.created_at)
        self.wake()

    def leave(self, parked: Parked) -> bool:
        """False when it had left before."""
        if parked not in self.parked:
            return False
        self.parked.remove(parked)
        return True

    def find(self, job_id: str) -> Parked | None:
        return next((parked for parked in self.parked if parked.job_id == job_id), None)

    def missing_from(self, state: KeyState) -> list[Parked]:
        """Those that their key does not know: their jobs are over, perhaps."""
        known = {slot.job_id for slot in state.active} | {each.job_id for each in state.queued}
        return [parked for parked in self.parked if parked.job_id not in known]

    def forget_sightings(self) -> None:
        """Nobody could renew anything while there was no server: leases count anew from here."""
        self.sightings = LeaseObserver()

    def see(self, state: KeyState, monotonic: float) -> None:
        self.sightings = self.sightings.observe(state, monotonic)
        holders = {slot.job_id for slot in state.active}
        for parked in self.parked:
            parked.seen_idle = parked.seen_idle or parked.job_id not in holders
        if state.free == 0:
            self.free_since = None
        elif self.free_since is None:
            self.free_since = monotonic

    def wake(self) -> None:
        self._news.set()

    def listen(self) -> None:
        """What is said from now on ends the next rest."""
        self._news.clear()

    async def rest(self, seconds: float) -> bool:
        """True when it ended with news."""
        try:
            async with asyncio.timeout(seconds):
                return await self._news.wait()
        except TimeoutError:
            return False
