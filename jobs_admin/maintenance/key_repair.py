"""Removes ended, delayed and unknown jobs from keys.

Workers remove such entries from the keys that they use. This repairs keys that no worker uses.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from jobs_admin.reads.candidates import states_of
from trellis_jobs.jetstream.keys.coordinator import ABANDONED_AFTER
from trellis_jobs.model.identity import JobAddress
from trellis_jobs.model.states import ENQUEUED, JobState
from trellis_jobs.model.values import replace

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping
    from datetime import datetime

    from jobs_admin.actions.guarded_append import GuardedAppender
    from jobs_admin.actions.job_keys import JobKeys
    from jobs_admin.maintenance.occupied_keys import OccupiedKeys
    from jobs_admin.maintenance.pace import Pace
    from jobs_admin.reads.readers import Readers
    from trellis_jobs.model.job_status import JobStatus
    from trellis_jobs.model.keys.state import KeyAddress, KeyState, Slot

log = logging.getLogger(__name__)

# A retried job is queued under its key a moment before its event is in the log.
_RETRY_GRACE: Final = timedelta(seconds=10)


@dataclass(frozen=True, slots=True)
class Leftovers:
    """`slots` are those of the jobs whose lease has expired."""

    jobs: frozenset[str]
    slots: tuple[Slot, ...]


def plan_repair(
    state: KeyState,
    statuses: Mapping[str, JobStatus | None],
    expired: frozenset[str],
    now: datetime,
) -> Leftovers | None:
    """Decide which of the jobs in `statuses` to remove; `expired` are slots by token.

    A delayed job enters the queue of its key just before it is released, like a new job. A slot
    whose lease has not expired may belong to a handler that is cleaning up.
    """

    def is_left_over(job_id: str, entered_at: datetime, grace: timedelta) -> bool:
        if job_id not in statuses:
            return False
        status = statuses[job_id]
        if status is None:
            return now - entered_at > ABANDONED_AFTER
        return status.is_over and now - entered_at >= grace

    slots = tuple(
        slot
        for slot in state.active
        if slot.token in expired and is_left_over(slot.job_id, slot.started_at, timedelta())
    )

    def is_delayed(job_id: str, entered_at: datetime) -> bool:
        status = statuses.get(job_id)
        is_waiting = status is not None and status.state is JobState.SCHEDULED
        return is_waiting and now - entered_at > ABANDONED_AFTER

    waiting = {
        each.job_id
        for each in state.queued
        if is_left_over(each.job_id, each.created_at, _RETRY_GRACE)
        or is_delayed(each.job_id, each.created_at)
    }
    jobs = waiting | {slot.job_id for slot in slots}
    return Leftovers(frozenset(jobs), slots) if jobs else None


def removable(state: KeyState, expired: frozenset[str], now: datetime) -> frozenset[str]:
    """Jobs of the key that `plan_repair` may remove, if the log confirms that they have ended."""
    slots = {slot.job_id for slot in state.active if slot.token in expired}
    waiting = {each.job_id for each in state.queued if now - each.created_at >= _RETRY_GRACE}
    return frozenset(slots | waiting)


@dataclass(slots=True, kw_only=True)
class KeyRepair:
    """`is_caught_up`: whether the projection has every event that the log holds at the call."""

    readers: Readers
    appender: GuardedAppender
    keys: JobKeys
    occupied: OccupiedKeys
    now: Callable[[], datetime]
    is_caught_up: Callable[[], Awaitable[bool]]
    pace: Pace
    _doubtful: frozenset[JobAddress] = frozenset()

    async def sweep(self) -> None:
        """Repair keys in which two sweeps in a row found a job that has ended.

        A job leaves its key a moment after its end, so finding it once means nothing. This way the
        log is read only for jobs that stay.
        """
        await self.occupied.update()
        self.keys.leases.observe_all(self.occupied.states)
        doubtful = frozenset(await self._not_live())
        lasting = doubtful & self._doubtful
        self._doubtful = doubtful
        keys: dict[KeyAddress, list[JobAddress]] = {}
        for key, state in self.occupied.states.items() if lasting else ():
            stayed = [job for job in _jobs_in(key, state) if job in lasting]
            if stayed:
                keys[key] = stayed
        await self.pace.each(self._repair, list(keys.items()))

    async def _not_live(self) -> set[JobAddress]:
        """Jobs that have ended or are delayed, or that a caught-up projection does not know."""
        queues: dict[tuple[str, str], set[str]] = {}
        for key, state in self.occupied.states.items():
            queue = queues.setdefault((key.service, key.job_type), set())
            queue |= removable(state, self.keys.leases.expired(key), self.now())
        knows_all = any(queues.values()) and await self.is_caught_up()
        found: set[JobAddress] = set()
        for (service, job_type), ids in queues.items():
            known = await states_of(self.readers, service, job_type, ids)
            outside = {each for each in known if known[each] not in ENQUEUED}
            unknown = ids - known.keys() if knows_all else set()
            found |= {JobAddress(service, job_type, each) for each in outside | unknown}
        return found

    async def _repair(self, doubted: tuple[KeyAddress, list[JobAddress]]) -> None:
        key, jobs = doubted
        state = self.occupied.states[key]
        statuses: dict[str, JobStatus | None] = {}
        for job in jobs:
            latest = await self.appender.current(job)
            statuses[job.job_id] = None if latest is None else latest.head.status
        left = plan_repair(state, statuses, self.keys.leases.expired(key), self.now())
        if left is not None:
            log.warning(
                "key repair: removing jobs from key %s that have ended or are delayed",
                state.display,
                extra={"key": state.display, "jobs": sorted(left.jobs)},
            )
            await self.keys.forget(key, replace(state, active=left.slots), *left.jobs)


def _jobs_in(key: KeyAddress, state: KeyState) -> set[JobAddress]:
    ids = {slot.job_id for slot in state.active} | {each.job_id for each in state.queued}
    return {JobAddress(key.service, key.job_type, each) for each in ids}
