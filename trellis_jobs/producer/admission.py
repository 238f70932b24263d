"""Admits a new job to its key: first a reservation in the bucket, then `created` in the log.

A process that dies in between leaves a reservation without a job. After a minute, the next producer
that finds the key full removes it.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from trellis_jobs.errors import (
    FullKey,
    JobExists,
    JobsError,
    KeyBusy,
    NotAdmitted,
    NotConfirmed,
    QueueFull,
    StreamFull,
)
from trellis_jobs.jetstream.log.decide_again import Appended
from trellis_jobs.jetstream.log.event_log import Refused
from trellis_jobs.model.concurrency import QueuePolicy
from trellis_jobs.model.events import Created, EventKind, Skipped
from trellis_jobs.model.keys.backlog import Admission as Decision
from trellis_jobs.model.keys.backlog import (
    Admitted,
    CoalescedInto,
    Refusal,
    Rejected,
    Replaced,
    WhenFull,
    oldest,
)
from trellis_jobs.model.keys.state import waiting_entry
from trellis_jobs.model.states import ENQUEUED, JobState
from trellis_jobs.model.values import replace

if TYPE_CHECKING:
    from trellis_jobs.jetstream.keys.coordinator import KeyCoordinator
    from trellis_jobs.jetstream.log.event_log import EventLog, Latest
    from trellis_jobs.model.identity import JobAddress
    from trellis_jobs.model.job_status import Head, JobStatus
    from trellis_jobs.model.keys.state import Waiting
    from trellis_jobs.model.keys.template import JobKey
    from trellis_jobs.producer.full_keys import FullKeys

log = logging.getLogger(__name__)

# Seconds between reads: the producer of a reservation is about to write `created`.
_CHECK_DELAYS: Final = (0.0, 0.01, 0.05, 0.2, 0.5)


_ACCEPTED: Final = QueuePolicy(outcome="accepted")
_REPLACEABLE: Final = frozenset({JobState.PENDING, JobState.RETRY})


class JobChanged(JobsError):
    """The delayed job is not at the event after which it was to be released."""

    def __init__(self, job_id: str, refusal: Refused) -> None:
        super().__init__(f"job {job_id} has changed while it was released")
        self.refusal = refusal


@dataclass(frozen=True, slots=True)
class Entered:
    """The job is in the log. `replaced` is the job that was skipped for it."""

    head: Head
    replaced: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Admission:
    """Admits one job. `timeout` limits each append, in seconds.

    `after` is the newest event of a delayed job that is released, and None for a new job.
    `waits_if_full`: the job enters the log even if its key is full, and has no place in the queue
    of the key then: it starts when the key is free.
    """

    keys: KeyCoordinator
    events: EventLog
    key: JobKey
    created: Created
    full_keys: FullKeys
    timeout: float
    after: Head | None = None
    waits_if_full: bool = False

    async def enter(self) -> Entered:
        """Raises KeyBusy or QueueFull when the queue's policy admits no new job.

        Raises JobExists, or for a delayed job JobChanged, if the log refuses the event.
        """
        while True:
            decision = await self._admit()
            if isinstance(decision, Rejected | CoalescedInto):
                if self.waits_if_full:
                    return await self._append_alone()
                if await self.full_keys.evict_expired(self.keys, self.key, decision.state):
                    continue
                raise self._not_admitted(decision)
            entered = await self._append_or_cancel(decision)
            if entered is not None:
                return entered
            # The job that was to be replaced has started: start over, without a reservation.
            await self._cancel_reservation()

    async def _admit(self) -> Decision:
        when_full = WhenFull.REJECT if self.waits_if_full else None
        return await self.keys.admit(self.key, self._waiting, when_full)

    @property
    def _waiting(self) -> Waiting:
        return waiting_entry(self.created)

    async def _append_or_cancel(self, decision: Admitted | Replaced) -> Entered | None:
        try:
            return await self._append(decision)
        except NotConfirmed:
            raise  # The job may be in the log. If not, its reservation expires in a minute.
        except JobsError as error:
            is_other = isinstance(error, JobExists | JobChanged)
            if not (is_other and await self._belongs_to_same_job()):
                replaced = decision.replaced if isinstance(decision, Replaced) else None
                await self._cancel_reservation(replaced)
            raise

    async def _append(self, decision: Admitted | Replaced) -> Entered | None:
        if isinstance(decision, Admitted):
            return await self._append_alone()
        victim = replace(self.created.job, job_id=decision.replaced.job_id)
        latest = await self.keys.latest(victim.job_id)
        if latest is None:
            return await self._replace_before_created(victim)
        return await self._replace(latest, victim)

    async def _append_alone(self, policy: QueuePolicy = _ACCEPTED) -> Entered:
        event = self._with_policy(policy)
        head = await self.events.try_append(self.after, event, timeout=self.timeout)
        if isinstance(head, Refused):
            raise self._refused(head)
        return Entered(head)

    def _refused(self, refusal: Refused) -> JobsError:
        job_id = self.created.job.job_id
        return JobExists(job_id) if self.after is None else JobChanged(job_id, refusal)

    async def _replace(self, latest: Latest, victim: JobAddress) -> Entered | None:
        """Returns None when the victim has started: a running job is never replaced."""
        while not self._has_left(latest.head.status):
            if latest.head.status.state is JobState.ACTIVE:
                return None
            entered = await self._append_both(latest, victim)
            if entered is not None:
                return entered
            head = await self.events.head(self.created.job)
            if head is not None and (self.after is None or head.sequence != self.after.sequence):
                raise self._refused(Refused(head.sequence))
            latest = await self.keys.latest(victim.job_id, latest.head.sequence) or latest
        return await self._append_alone()

    def _has_left(self, victim: JobStatus) -> bool:
        """A job that was moved to a later time waits no more, even if its place is still there."""
        is_moved = victim.state is JobState.SCHEDULED and (
            victim.next_attempt_at is not None and victim.next_attempt_at > self.created.at
        )
        return victim.is_over or is_moved

    async def _replace_before_created(self, victim: JobAddress) -> Entered:
        """Replaces a job that is reserved but not in the log yet.

        Appends the new job before waiting for the victim: its producer may wait for a victim too,
        and if each producer waited first, a chain of replacements would deadlock.
        """
        entered = await self._append_alone(_replacing(victim))
        for delay in _CHECK_DELAYS:
            await asyncio.sleep(delay)
            latest = await self.keys.latest(victim.job_id)
            if latest is not None:
                return await self._skip(latest, victim, entered.head)
        return entered

    async def _append_both(self, latest: Latest, victim: JobAddress) -> Entered | None:
        """Appends both events as one batch. Without batches the new job comes first.

        In that order, a crash in between leaves both jobs, never none.
        """
        created, skipped = self._with_policy(_replacing(victim)), self._skipped(latest, victim)
        both = await self.events.try_append_together(
            [(latest.head, skipped), (self.after, created)], timeout=self.timeout
        )
        if both is not None:
            return None if isinstance(both, Refused) else Entered(both[1], victim.job_id)
        entered = await self._append_alone(_replacing(victim))
        return await self._skip(latest, victim, entered.head)

    async def _skip(self, latest: Latest, victim: JobAddress, entered: Head) -> Entered:
        """If the victim has started meanwhile, both jobs run."""

        def plan(latest: Latest) -> Skipped | None:
            is_waiting = latest.head.status.state in _REPLACEABLE
            return self._skipped(latest, victim) if is_waiting else None

        try:
            skip = await self.events.append_planned(
                victim, latest, plan, timeout=self.timeout, shared=self.keys.shared
            )
        except StreamFull as full:
            log.warning(
                "could not skip job %s, so it runs as well as the job that replaces it: %s",
                victim.job_id,
                full,
            )
            return Entered(entered)
        return Entered(entered, victim.job_id if isinstance(skip, Appended) else None)

    def _skipped(self, latest: Latest, victim: JobAddress) -> Skipped:
        return Skipped(
            **latest.event_fields(victim, self.created.at),
            by=victim.service,
            reason=f"job {self.created.job.job_id} replaced it in the queue of its key",
        )

    async def _belongs_to_same_job(self) -> bool:
        """True if another request created this job id under the same key.

        The reservation then belongs to that job, and must not be cancelled.
        """
        job = self.created.job
        first, head = await self.events.last(job, EventKind.CREATED), await self.events.head(job)
        if head is None or head.status.state not in ENQUEUED or first is None:
            return False
        concurrency = first.event.concurrency if isinstance(first.event, Created) else None
        return concurrency is not None and concurrency.key_hash == self.key.hash

    async def _cancel_reservation(self, replaced: Waiting | None = None) -> None:
        try:
            await self.keys.cancel_reservation(self.key, self._waiting, replaced)
        except JobsError as error:
            log.warning(
                "could not cancel the reservation of job %s in key %s, it expires in a minute: %s",
                self._waiting.job_id,
                self.key.display,
                error,
                extra={
                    "key": self.key.display,
                    "job": self._waiting.job_id,
                    "error": str(error),
                },
            )

    def _with_policy(self, policy: QueuePolicy) -> Created:
        return replace(self.created, queue_policy=policy)

    def _not_admitted(self, decision: Rejected | CoalescedInto) -> NotAdmitted:
        state, reason = decision.state, decision.why.reason
        full = FullKey(
            key=self.key.display,
            reason=reason.value,
            active=len(state.active),
            queued=len(state.queued),
            limit=decision.why.limit,
            existing_job_id=oldest(state),
        )
        kind = QueueFull if reason is Refusal.QUEUE_DEPTH else KeyBusy
        return kind(full, coalesced=isinstance(decision, CoalescedInto))


def _replacing(victim: JobAddress) -> QueuePolicy:
    return QueuePolicy(
        outcome="replaced", reason=WhenFull.REPLACE_OLDEST, replaced_job_id=victim.job_id
    )
