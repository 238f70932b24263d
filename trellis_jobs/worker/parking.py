"""Deliveries whose key is taken: parked, in a line per key, and woken when their key changes.

A parked delivery costs a renewal now and then: no seat, no try, no polling. Each line looks at its
key when the bucket says that it changed (only a hint, design D22), when a lease could be over, and
now and then in case a hint was lost.
"""

from __future__ import annotations

import logging
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from trellis_jobs.errors import JobsError, KeyUnresolvable
from trellis_jobs.model.keys.fencing import StalePolicy
from trellis_jobs.model.keys.waiters import Admit, Wait, WaiterDecision, next_waiter
from trellis_jobs.model.settlement import Nak
from trellis_jobs.worker.claimed import Claimed
from trellis_jobs.worker.end_watch import EndCheck
from trellis_jobs.worker.key_waiters import KeyLine, Parked
from trellis_jobs.worker.slot_acquirer import SlotAcquirer, Waits, waiting_of

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from trellis_jobs.jetstream.work.delivery import Delivery
    from trellis_jobs.model.keys.state import KeyState, Slot
    from trellis_jobs.model.keys.template import JobKey
    from trellis_jobs.worker.capacity import Capacity
    from trellis_jobs.worker.claim import Claims
    from trellis_jobs.worker.worker_context import WorkerContext

log = logging.getLogger(__name__)

# Each costs a renewal every third of ack_wait, and its delivery in memory.
PLACES: Final = 5_000
# How long a delivery without a place stays away: longer each time, and never in step with others.
_AWAY: Final = timedelta(seconds=1)
_MOST_DOUBLINGS: Final = 3
_ON_THE_WAY: Final = 1.0
_AFTER_TROUBLE: Final = 5.0
# The others move up, and are looked for then.
_LOOKED_FOR: Final = 20


class Parking:
    """`run` gets each claimed job, with the seat that was taken for it."""

    def __init__(
        self,
        claims: Claims,
        desk: SlotAcquirer,
        tools: WorkerContext,
        seats: Capacity,
        run: Callable[[Delivery, Claimed], Coroutine[Any, Any, None]],
    ) -> None:
        self._claims = claims
        self._desk = desk
        self._tools = tools
        self._seats = seats
        self._run = run
        self._lines: dict[str, KeyLine] = {}
        self._by_job: dict[str, tuple[KeyLine, Parked]] = {}
        self._is_open = True
        self._all_back_at = 0.0

    @property
    def is_empty(self) -> bool:
        """Nothing waits, here or on its way back to here."""
        return not self._by_job and self._tools.environment.monotonic() >= self._all_back_at

    def join(self, delivery: Delivery) -> bool:
        """Take in a delivery that has to wait for certain: others of its key do so already."""
        known = self._by_job.get(delivery.job.job_id)
        if known is not None:
            known[1].meet_again(delivery)
            return True
        key = self._key_of(delivery) if self._lines else None
        line = None if key is None else self._lines.get(key.hash)
        if line is not None:
            self._park(delivery, line)
        return line is not None

    def queue_up(self, delivery: Delivery) -> bool:
        """Take in a delivery for which there is no seat right now."""
        key = self._key_of(delivery)
        if key is not None:
            self.park(delivery, key)
        return key is not None

    def park(self, delivery: Delivery, key: JobKey) -> None:
        line = self._lines.get(key.hash)
        if line is None:
            line = self._lines[key.hash] = KeyLine(key)
            self._tools.background.spawn(self._serve(line))
        self._park(delivery, line)

    def hint(self, key_hash: str) -> None:
        line = self._lines.get(key_hash)
        if line is not None:
            line.wake()

    def hint_all(self) -> None:
        """Hints were lost, perhaps, and so were renewals."""
        for line in self._lines.values():
            line.forget_sightings()
            line.wake()

    def hint_end(self, job_id: str) -> None:
        known = self._by_job.get(job_id)
        if known is None:
            return
        line, parked = known
        if parked.end_check is None:
            look = partial(self._look_for_end, line, parked)
            parked.end_check = EndCheck(look, self._tools.background.spawn)
        parked.end_check.hint()

    def open(self) -> None:
        self._is_open = True

    def close(self) -> None:
        """Hand everything back, for others to take; what is being started is past that."""
        self._is_open = False
        for line, parked in list(self._by_job.values()):
            if parked is not line.entering:
                self._send_away(line, parked, Nak())

    def _key_of(self, delivery: Delivery) -> JobKey | None:
        try:
            return self._desk.keys.key_of(delivery.begun)
        except KeyUnresolvable:
            return None

    def _park(self, delivery: Delivery, line: KeyLine) -> None:
        now = self._tools.environment.monotonic()
        parked = Parked(delivery, waiting_of(delivery), since=now)
        self._tools.leases.keep(parked.lease)
        self._by_job[parked.job_id] = (line, parked)
        line.join(parked)
        self._mind_hints(parked)
        if not self._is_open:
            self._send_away(line, parked, Nak())
        elif len(self._by_job) > PLACES:
            youngest = next(p for p in reversed(line.parked) if p is not line.entering)
            self._send_away(line, youngest, self._later(youngest.delivery))

    def _later(self, delivery: Delivery) -> Nak:
        doublings = min(delivery.delivered.number - 1, _MOST_DOUBLINGS)
        away = _AWAY * 2**doublings * (1 + self._tools.environment.random())
        back_at = self._tools.environment.monotonic() + away.total_seconds()
        self._all_back_at = max(self._all_back_at, back_at + _ON_THE_WAY)
        return Nak(away)

    def _send_away(self, line: KeyLine, parked: Parked, answer: Nak) -> None:
        if self._leave(line, parked):
            self._tools.background.spawn(parked.delivery.answer(answer))

    def _leave(self, line: KeyLine, parked: Parked) -> bool:
        """Once: False when it is gone already."""
        if self._by_job.get(parked.job_id) == (line, parked):
            del self._by_job[parked.job_id]
        self._tools.leases.drop(parked.lease)
        line.wake()
        return line.leave(parked)

    async def _serve(self, line: KeyLine) -> None:
        """As long as anybody waits; if this fails, the server delivers them again."""
        try:
            is_woken = False
            while line.parked:
                line.listen()
                is_woken = await line.rest(await self._serve_once(line, fresh=not is_woken))
        finally:
            self._lines.pop(line.key.hash, None)
            for parked in list(line.parked):
                self._leave(line, parked)

    async def _serve_once(self, line: KeyLine, *, fresh: bool) -> float:
        """Returns the seconds to rest, unless there is news."""
        self._drop_lapsed(line)
        try:
            await self._end_overdue(line)
            state = await self._look(line, fresh=fresh)
            self._look_for_missing(line, state)
            turn = self._turn(line, state)
            if isinstance(turn, Admit):
                await self._let_in(line, state, turn)
                return 0.0
        except JobsError as error:
            log.warning(
                "the state of key %s cannot be read or changed, retrying in %g s: %s",
                line.key.display,
                _AFTER_TROUBLE,
                error,
                extra={"key": line.key.display, "error": str(error)},
            )
            return _AFTER_TROUBLE
        return self._rest_of(line, turn)

    def _drop_lapsed(self, line: KeyLine) -> None:
        """A delivery that was not renewed in time is another's by now, or comes again (D7)."""
        now = self._tools.environment.monotonic()
        for parked in [parked for parked in line.parked if parked.lease.has_lapsed(now)]:
            self._leave(line, parked)

    async def _end_overdue(self, line: KeyLine) -> None:
        """A deadline needs no seat and no key: such a job is over, and is claimed to end it."""
        now = self._tools.environment.now()
        for parked in [p for p in line.parked if p.deadline is not None and p.deadline <= now]:
            await self._end(line, parked)

    async def _look(self, line: KeyLine, *, fresh: bool) -> KeyState:
        """After a rest without news a fresh read, in case that news was lost."""
        keys = self._desk.keys
        state = await (keys.read(line.key) if fresh else keys.read_cached(line.key))
        if not self._see(line, state):
            return state
        over = self._see(line, await keys.read(line.key))
        for slot in over:
            await keys.evict(line.key, slot)
        state = await keys.read_cached(line.key)
        self._see(line, state)
        return state

    def _see(self, line: KeyLine, state: KeyState) -> list[Slot]:
        """The slots to be evicted: their lease is over, and none of them is of a job that waits."""
        key_policy, now = self._desk.keys.key_policy, self._tools.environment.monotonic()
        line.see(state, now)
        if key_policy.stale_policy is StalePolicy.BLOCK:
            return []
        here = {parked.job_id for parked in line.parked}
        over = line.sightings.expired(key_policy.heartbeat_ttl.total_seconds(), now)
        return [slot for slot in over if slot.job_id not in here]

    def _turn(self, line: KeyLine, state: KeyState) -> WaiterDecision:
        now, monotonic = self._tools.environment.now(), self._tools.environment.monotonic()
        free_for = timedelta(seconds=0 if line.free_since is None else monotonic - line.free_since)
        waiting = [parked.waiting for parked in line.parked]
        return next_waiter(state, waiting, now=now, free_for=free_for)

    async def _let_in(self, line: KeyLine, state: KeyState, turn: Admit) -> None:
        if turn.may_overtake:
            await self._tidy(line, state)
        its_turn_at = self._tools.environment.monotonic()
        await self._seats.take()
        self._drop_lapsed(line)
        parked = line.find(turn.job_id)
        if parked is None:
            self._seats.leave()
            return
        line.entering = parked
        claimed: Claimed | Waits | None = None
        try:
            claimed = await self._claims.claim(
                parked.delivery,
                may_overtake=turn.may_overtake,
                seen_idle=parked.seen_idle,
                waited=timedelta(seconds=its_turn_at - parked.since),
            )
        finally:
            line.entering = None
            if not isinstance(claimed, Claimed):
                self._seats.leave()
        if isinstance(claimed, Waits):
            self._mind_hints(parked)
            if not self._is_open:
                self._send_away(line, parked, Nak())
            return
        self._leave(line, parked)
        if claimed is not None:
            self._tools.background.spawn(self._run(parked.delivery, claimed))

    async def _tidy(self, line: KeyLine, state: KeyState) -> None:
        """Those before us did not come: forget the ones that are over, now and then."""
        now = self._tools.environment.monotonic()
        interval = self._desk.keys.key_policy.heartbeat_interval.total_seconds()
        if line.tidied_at is None or now - line.tidied_at >= interval:
            line.tidied_at = now
            await self._desk.keys.forget_ended(line.key, state)

    def _rest_of(self, line: KeyLine, turn: Wait) -> float:
        key_policy, environment = self._desk.keys.key_policy, self._tools.environment
        rests = [key_policy.heartbeat_interval.total_seconds()]
        if turn.timeout is not None:
            rests.append(turn.timeout.total_seconds())
        next_expiry = line.sightings.next_expiry(key_policy.heartbeat_ttl.total_seconds())
        if next_expiry is not None and key_policy.stale_policy is StalePolicy.FAIL_STALE:
            rests.append(next_expiry - environment.monotonic())
        deadlines = [p.deadline for p in line.parked if p.deadline is not None]
        if deadlines:
            rests.append((min(deadlines) - environment.now()).total_seconds())
        return max(0.0, min(rests))

    def _mind_hints(self, parked: Parked) -> None:
        """Those that came while it was claimed."""
        if parked.job_id in self._tools.end_hints:
            self.hint_end(parked.job_id)

    def _look_for_missing(self, line: KeyLine, state: KeyState) -> None:
        """Hints can be lost: who ends a job removes it from its key too. A few, now and then."""
        now = self._tools.environment.monotonic()
        interval = self._desk.keys.key_policy.heartbeat_interval.total_seconds()
        if line.missed_at is None or now - line.missed_at >= interval:
            line.missed_at = now
            for parked in line.missing_from(state)[:_LOOKED_FOR]:
                self.hint_end(parked.job_id)

    async def _look_for_end(self, line: KeyLine, parked: Parked) -> bool:
        """Believe the log, not the hint. True when nobody need look any more."""
        if parked not in line.parked:
            return True
        head = await self._claims.newest(parked.delivery)
        if head is None or not head.status.is_over or parked is line.entering:
            return False
        await self._end(line, parked)
        return True

    async def _end(self, line: KeyLine, parked: Parked) -> None:
        """The job is over, or must be: whoever claims it only tidies up. Not twice."""
        if not self._leave(line, parked):
            return
        claimed = await self._claims.claim(parked.delivery, seen_idle=parked.seen_idle)
        if isinstance(claimed, Claimed):
            await self._seats.take()
            await self._run(parked.delivery, claimed)
        elif isinstance(claimed, Waits):
            self.park(parked.delivery, claimed.key)
