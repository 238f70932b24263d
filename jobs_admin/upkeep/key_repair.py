"""Takes jobs out of keys in which nothing of them should be left: those that are over or unknown.

Whoever meets such an entry removes it; but a key that nobody asks for meets nobody.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from jobs_admin.reads.candidates import states_of
from jobs_admin.upkeep.abreast import abreast
from trellis_jobs.jetstream.queue_keys import ABANDONED_AFTER
from trellis_jobs.model.identity import JobAddress
from trellis_jobs.model.states import LIVE
from trellis_jobs.model.values import replace

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import datetime

    from jobs_admin.job_keys import JobKeys
    from jobs_admin.reads.readers import Readers
    from jobs_admin.upkeep.verdicts import Verdicts
    from trellis_jobs.jetstream.key_changes import KeyChanges
    from trellis_jobs.model.key_state import KeyAddress, KeyState, Slot
    from trellis_jobs.model.standing import Standing

log = logging.getLogger(__name__)

# A job that an operator retries waits for its key a moment before the log says so.
_RETRY_GRACE: Final = timedelta(seconds=10)


@dataclass(frozen=True, slots=True)
class Leftovers:
    """`slots`: of these only the ones whose lease is over."""

    jobs: frozenset[str]
    slots: tuple[Slot, ...]


def plan_repair(
    state: KeyState,
    standings: Mapping[str, Standing | None],
    expired: frozenset[str],
    now: datetime,
) -> Leftovers | None:
    """`standings`: of the jobs that are to be judged; `expired`: slots whose lease is over.

    A slot whose lease is not over may belong to a handler that is tidying up.
    """

    def is_left_over(job_id: str, entered_at: datetime, grace: timedelta) -> bool:
        if job_id not in standings:
            return False
        standing = standings[job_id]
        if standing is None:
            return now - entered_at > ABANDONED_AFTER
        return standing.is_over and now - entered_at >= grace

    slots = tuple(
        slot
        for slot in state.active
        if slot.token in expired and is_left_over(slot.job_id, slot.started_at, timedelta())
    )
    waiting = {
        each.job_id
        for each in state.queued
        if is_left_over(each.job_id, each.created_at, _RETRY_GRACE)
    }
    jobs = waiting | {slot.job_id for slot in slots}
    return Leftovers(frozenset(jobs), slots) if jobs else None


@dataclass(slots=True, kw_only=True)
class KeyRepair:
    readers: Readers
    verdicts: Verdicts
    keys: JobKeys
    changes: KeyChanges
    now: Callable[[], datetime]
    _busy: dict[KeyAddress, KeyState] = field(default_factory=dict)

    async def sweep(self) -> None:
        """Every key in which somebody is, by what the bucket held a moment ago."""
        are_all, changed = await self.changes.since_last()
        if are_all:
            self._busy.clear()
        for key, state in changed.items():
            if state is None or not (state.active or state.queued):
                self._busy.pop(key, None)
            else:
                self._busy[key] = state
        self.keys.leases.look_at_all(self._busy)
        await abreast(self._repair, list(self._busy.items()))

    async def _repair(self, busy: tuple[KeyAddress, KeyState]) -> None:
        key, state = busy
        expired = self.keys.leases.over(key)
        left = plan_repair(state, await self._standings(key, state), expired, self.now())
        if left is not None:
            log.warning(
                "a key forgets jobs that are over",
                extra={"key": state.display, "jobs": sorted(left.jobs)},
            )
            await self.keys.forget(key, replace(state, active=left.slots), *left.jobs)

    async def _standings(self, key: KeyAddress, state: KeyState) -> dict[str, Standing | None]:
        """Of the jobs that the projection does not know to live: what the log says of them."""
        ids = {slot.job_id for slot in state.active} | {each.job_id for each in state.queued}
        known = await states_of(self.readers, key.service, key.job_type, ids)
        doubtful = [job_id for job_id in ids if known.get(job_id) not in LIVE]
        found: dict[str, Standing | None] = {}
        for job_id in doubtful:
            latest = await self.verdicts.current(JobAddress(key.service, key.job_type, job_id))
            found[job_id] = None if latest is None else latest.head.standing
        return found
