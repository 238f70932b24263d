"""Parks deliveries whose key is taken, and starts them when their key changes.

A parked delivery uses no slot, no try and no polling, only a renewal of its lease. One task for
each key reads the state of the key when the bucket reports a change (only a hint, design D22), when
a lease may have expired, and once in a heartbeat interval in case a hint was lost.
"""

from __future__ import annotations

import logging
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from trellis_jobs.errors import JobsError, KeyUnresolvable
from trellis_jobs.model.keys.fencing import StalePolicy
from trellis_jobs.model.keys.state import waiting_entry
from trellis_jobs.model.keys.waiters import Admit, Wait, WaiterDecision, next_waiter
from trellis_jobs.model.retry import DoublingDelay
from trellis_jobs.model.settlement import Nak
from trellis_jobs.worker.claimed import Claimed
from trellis_jobs.worker.end_watch import EndWatch
from trellis_jobs.worker.key_waiters import KeyWaiters, ParkedDelivery
from trellis_jobs.worker.slot_acquirer import SlotAcquirer, WaitForKey

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from trellis_jobs.jetstream.work.delivery import Delivery
    from trellis_jobs.model.keys.state import KeyState, Slot
    from trellis_jobs.model.keys.template import JobKey
    from trellis_jobs.worker.capacity import Capacity
    from trellis_jobs.worker.claim import Claimer
    from trellis_jobs.worker.worker_context import WorkerContext

log = logging.getLogger(__name__)

# Each parked delivery is kept in memory and renewed every third of ack_wait.
MAX_PARKED: Final = 5_000
# The redelivery delay of deliveries beyond that. It doubles each time, with jitter.
_DELAY: Final = DoublingDelay(timedelta(seconds=1), max_doublings=3)
# Seconds that the server may need to redeliver after such a delay.
_REDELIVERY_MARGIN: Final = 1.0
_RETRY_DELAY: Final = 5.0
# Per pass. The next pass checks the others.
_MAX_END_CHECKS: Final = 20


class Parking:
    """`run` is called with each claimed job, for which a slot of `capacity` is acquired."""

    def __init__(
        self,
        claimer: Claimer,
        slot_acquirer: SlotAcquirer,
        context: WorkerContext,
        capacity: Capacity,
        run: Callable[[Delivery, Claimed], Coroutine[Any, Any, None]],
    ) -> None:
        self._claimer = claimer
        self._slot_acquirer = slot_acquirer
        self._context = context
        self._capacity = capacity
        self._run = run
        self._waiters: dict[str, KeyWaiters] = {}
        self._by_job: dict[str, tuple[KeyWaiters, ParkedDelivery]] = {}
        self._is_open = True
        self._redelivered_by = 0.0

    @property
    def is_empty(self) -> bool:
        """Whether nothing is parked, and nothing is due to be redelivered for lack of room."""
        return not self._by_job and self._context.environment.monotonic() >= self._redelivered_by

    @property
    def job_ids(self) -> tuple[str, ...]:
        return tuple(self._by_job)

    def park_if_key_waits(self, delivery: Delivery) -> bool:
        """Parks a delivery if older ones wait for the same key. Returns whether it did."""
        known = self._by_job.get(delivery.job.job_id)
        if known is not None:
            known[1].replace_delivery(delivery)
            return True
        key = self._key_of(delivery) if self._waiters else None
        waiters = None if key is None else self._waiters.get(key.hash)
        if waiters is not None:
            self._park(delivery, waiters)
        return waiters is not None

    def park_without_slot(self, delivery: Delivery) -> bool:
        """Parks a delivery with a key while all slots are in use. Returns whether it did."""
        key = self._key_of(delivery)
        if key is not None:
            self.park(delivery, key)
        return key is not None

    def park(self, delivery: Delivery, key: JobKey) -> None:
        waiters = self._waiters.get(key.hash)
        if waiters is None:
            waiters = self._waiters[key.hash] = KeyWaiters(key)
            self._context.background.spawn(self._run_waiters(waiters))
        self._park(delivery, waiters)

    def hint(self, key_hash: str) -> None:
        waiters = self._waiters.get(key_hash)
        if waiters is not None:
            waiters.notify()

    def hint_all(self) -> None:
        """Called after an outage, during which hints and renewals may have been lost."""
        for waiters in self._waiters.values():
            waiters.reset_leases()
            waiters.notify()

    def hint_end(self, job_id: str) -> None:
        known = self._by_job.get(job_id)
        if known is None:
            return
        waiters, parked = known
        if parked.end_watch is None:
            check = partial(self._check_end, waiters, parked)
            parked.end_watch = EndWatch(check, self._context.background.spawn)
        parked.end_watch.hint()

    def open(self) -> None:
        self._is_open = True

    def close(self) -> None:
        """Puts all deliveries back for other workers, except one that is starting."""
        self._is_open = False
        for waiters, parked in list(self._by_job.values()):
            if parked is not waiters.entering:
                self._put_back(waiters, parked, Nak())

    def _key_of(self, delivery: Delivery) -> JobKey | None:
        try:
            return self._slot_acquirer.keys.key_of(delivery.begun)
        except KeyUnresolvable:
            return None

    def _park(self, delivery: Delivery, waiters: KeyWaiters) -> None:
        now = self._context.environment.monotonic()
        parked = ParkedDelivery(delivery, waiting_entry(delivery.begun), since=now)
        self._context.leases.keep(parked.lease)
        self._by_job[parked.job_id] = (waiters, parked)
        waiters.add(parked)
        self._use_recent_hint(parked)
        if not self._is_open:
            self._put_back(waiters, parked, Nak())
        elif len(self._by_job) > MAX_PARKED:
            youngest = next(p for p in reversed(waiters.parked) if p is not waiters.entering)
            self._put_back(waiters, youngest, self._later(youngest.delivery))

    def _later(self, delivery: Delivery) -> Nak:
        delay = _DELAY.after(delivery.delivered.number, self._context.environment.random())
        due_at = self._context.environment.monotonic() + delay.total_seconds()
        self._redelivered_by = max(self._redelivered_by, due_at + _REDELIVERY_MARGIN)
        return Nak(delay)

    def _put_back(self, waiters: KeyWaiters, parked: ParkedDelivery, answer: Nak) -> None:
        if self._remove(waiters, parked):
            self._context.background.spawn(parked.delivery.answer(answer))

    def _remove(self, waiters: KeyWaiters, parked: ParkedDelivery) -> bool:
        """Returns False if it was removed before."""
        if self._by_job.get(parked.job_id) == (waiters, parked):
            del self._by_job[parked.job_id]
        self._context.leases.drop(parked.lease)
        waiters.notify()
        return waiters.remove(parked)

    async def _run_waiters(self, waiters: KeyWaiters) -> None:
        """Runs while deliveries wait for the key. If it fails, the server redelivers them."""
        try:
            is_notified = False
            while waiters.parked:
                waiters.clear_notification()
                seconds = await self._admit_next(waiters, fresh=not is_notified)
                is_notified = await waiters.wait_for_change(seconds)
        finally:
            self._waiters.pop(waiters.key.hash, None)
            for parked in list(waiters.parked):
                self._remove(waiters, parked)

    async def _admit_next(self, waiters: KeyWaiters, *, fresh: bool) -> float:
        """Starts the next job if a slot of the key is free. Returns the seconds to wait."""
        self._drop_lapsed(waiters)
        try:
            await self._end_overdue(waiters)
            state = await self._read_state(waiters, fresh=fresh)
            self._check_missing(waiters, state)
            decision = self._next_waiter(waiters, state)
            if isinstance(decision, Admit):
                await self._admit(waiters, state, decision)
                return 0.0
        except JobsError as error:
            log.warning(
                "cannot read or change the state of key %s, retrying in %g s: %s",
                waiters.key.display,
                _RETRY_DELAY,
                error,
                extra={"key": waiters.key.display, "error": str(error)},
            )
            return _RETRY_DELAY
        return self._wait_time(waiters, decision)

    def _drop_lapsed(self, waiters: KeyWaiters) -> None:
        """Drops deliveries that were not renewed in time: the server redelivers them (D7)."""
        now = self._context.environment.monotonic()
        for parked in [parked for parked in waiters.parked if parked.lease.has_lapsed(now)]:
            self._remove(waiters, parked)

    async def _end_overdue(self, waiters: KeyWaiters) -> None:
        """Claims jobs whose deadline has passed. That ends them, without a slot or the key."""
        now = self._context.environment.now()
        for parked in [p for p in waiters.parked if p.deadline is not None and p.deadline <= now]:
            await self._end(waiters, parked)

    async def _read_state(self, waiters: KeyWaiters, *, fresh: bool) -> KeyState:
        """Reads the key, and evicts slots whose lease has expired.

        `fresh` skips the cached state: a change may have been missed.
        """
        keys = self._slot_acquirer.keys
        state = await (keys.read(waiters.key) if fresh else keys.read_cached(waiters.key))
        if not self._observe(waiters, state):
            return state
        over = self._observe(waiters, await keys.read(waiters.key))
        for slot in over:
            await keys.evict(waiters.key, slot)
        state = await keys.read_cached(waiters.key)
        self._observe(waiters, state)
        return state

    def _observe(self, waiters: KeyWaiters, state: KeyState) -> list[Slot]:
        """Returns the slots to evict: their lease has expired, and their job is not parked here."""
        key_policy, now = self._slot_acquirer.keys.key_policy, self._context.environment.monotonic()
        waiters.observe(state, now)
        if key_policy.stale_policy is StalePolicy.BLOCK:
            return []
        here = {parked.job_id for parked in waiters.parked}
        over = waiters.leases.expired(key_policy.heartbeat_ttl.total_seconds(), now)
        return [slot for slot in over if slot.job_id not in here]

    def _next_waiter(self, waiters: KeyWaiters, state: KeyState) -> WaiterDecision:
        now, monotonic = self._context.environment.now(), self._context.environment.monotonic()
        free_for = timedelta(
            seconds=0 if waiters.free_since is None else monotonic - waiters.free_since
        )
        waiting = [parked.waiting for parked in waiters.parked]
        return next_waiter(state, waiting, now=now, free_for=free_for)

    async def _admit(self, waiters: KeyWaiters, state: KeyState, decision: Admit) -> None:
        if decision.may_overtake:
            await self._forget_ended(waiters, state)
        admitted_at = self._context.environment.monotonic()
        await self._capacity.acquire()
        self._drop_lapsed(waiters)
        parked = waiters.find(decision.job_id)
        if parked is None:
            self._capacity.release_and_finish()
            return
        waiters.entering = parked
        claimed: Claimed | WaitForKey | None = None
        try:
            claimed = await self._claimer.claim(
                parked.delivery,
                may_overtake=decision.may_overtake,
                seen_idle=parked.seen_idle,
                waited=timedelta(seconds=admitted_at - parked.since),
            )
        finally:
            waiters.entering = None
            if not isinstance(claimed, Claimed):
                self._capacity.release_and_finish()
        if isinstance(claimed, WaitForKey):
            self._use_recent_hint(parked)
            if not self._is_open:
                self._put_back(waiters, parked, Nak())
            return
        self._remove(waiters, parked)
        if claimed is not None:
            self._context.background.spawn(self._run(parked.delivery, claimed))

    async def _forget_ended(self, waiters: KeyWaiters, state: KeyState) -> None:
        """Removes older waiting jobs that are over, at most once in a heartbeat interval."""
        now = self._context.environment.monotonic()
        interval = self._slot_acquirer.keys.key_policy.heartbeat_interval.total_seconds()
        if waiters.cleaned_at is None or now - waiters.cleaned_at >= interval:
            waiters.cleaned_at = now
            await self._slot_acquirer.keys.forget_ended(waiters.key, state)

    def _wait_time(self, waiters: KeyWaiters, decision: Wait) -> float:
        key_policy, environment = self._slot_acquirer.keys.key_policy, self._context.environment
        waits = [key_policy.heartbeat_interval.total_seconds()]
        if decision.timeout is not None:
            waits.append(decision.timeout.total_seconds())
        next_expiry = waiters.leases.next_expiry(key_policy.heartbeat_ttl.total_seconds())
        if next_expiry is not None and key_policy.stale_policy is StalePolicy.FAIL_STALE:
            waits.append(next_expiry - environment.monotonic())
        deadlines = [p.deadline for p in waiters.parked if p.deadline is not None]
        if deadlines:
            waits.append((min(deadlines) - environment.now()).total_seconds())
        return max(0.0, min(waits))

    def _use_recent_hint(self, parked: ParkedDelivery) -> None:
        """Uses a hint that came while the delivery was being claimed."""
        if parked.job_id in self._context.end_hints:
            self.hint_end(parked.job_id)

    def _check_missing(self, waiters: KeyWaiters, state: KeyState) -> None:
        """Checks parked jobs that are no longer in the state of the key: they may have ended.

        A lost hint is found like this, because ending a job also removes it from its key.
        """
        now = self._context.environment.monotonic()
        interval = self._slot_acquirer.keys.key_policy.heartbeat_interval.total_seconds()
        if waiters.ends_checked_at is None or now - waiters.ends_checked_at >= interval:
            waiters.ends_checked_at = now
            for parked in waiters.missing_from(state)[:_MAX_END_CHECKS]:
                self.hint_end(parked.job_id)

    async def _check_end(self, waiters: KeyWaiters, parked: ParkedDelivery) -> bool:
        """Reads the log after a hint. Returns True when no further check is needed."""
        if parked not in waiters.parked:
            return True
        head = await self._claimer.read_head(parked.delivery)
        if head is None or not head.status.is_over or parked is waiters.entering:
            return False
        await self._end(waiters, parked)
        return True

    async def _end(self, waiters: KeyWaiters, parked: ParkedDelivery) -> None:
        """Claims a job that is over or past its deadline, which answers its delivery."""
        if not self._remove(waiters, parked):
            return
        claimed = await self._claimer.claim(
            parked.delivery, may_start=False, seen_idle=parked.seen_idle
        )
        if isinstance(claimed, WaitForKey):
            # The job was begun again after its end.
            self.park(parked.delivery, claimed.key)
