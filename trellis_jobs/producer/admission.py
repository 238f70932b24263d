"""A job's way into its key: reserved in the bucket, then in the log; or turned away.

The reservation comes first. A process that dies before `created` leaves one that nobody fulfils;
it is forgotten after a minute by whoever finds the key full.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from trellis_jobs.errors import JobExists, JobsError, NotConfirmed
from trellis_jobs.infrastructure_errors import StreamFull
from trellis_jobs.jetstream.log.event_log import Refused
from trellis_jobs.key_errors import FullKey, KeyBusy, NotAdmitted, QueueFull
from trellis_jobs.model.concurrency import QueuePolicy
from trellis_jobs.model.events import Created, EventKind, Skipped
from trellis_jobs.model.job_status import Head
from trellis_jobs.model.keys.backlog import (
    Admitted,
    CoalescedInto,
    Refusal,
    Rejected,
    Replaced,
    WhenFull,
    oldest,
)
from trellis_jobs.model.keys.state import Waiting
from trellis_jobs.model.states import JobState
from trellis_jobs.model.values import replace

if TYPE_CHECKING:
    from trellis_jobs.jetstream.keys.coordinator import KeyCoordinator
    from trellis_jobs.jetstream.log.event_log import EventLog, Latest
    from trellis_jobs.model.identity import JobAddress
    from trellis_jobs.model.keys.template import JobKey
    from trellis_jobs.producer.full_keys import FullKeys

log = logging.getLogger(__name__)

# A reservation that another producer has just made is in the log in a moment.
_LOOKS: Final = (0.0, 0.01, 0.05, 0.2, 0.5)


_ACCEPTED: Final = QueuePolicy(outcome="accepted")
_MAKING_WAY: Final = frozenset({JobState.PENDING, JobState.RETRY})


@dataclass(frozen=True, slots=True)
class Entered:
    """In the log; `replaced` is the job that made way."""

    head: Head
    replaced: str | None = None


class Admission:
    """One job that asks for its place in its key; `patience` is that of each append."""

    def __init__(
        self,
        keys: KeyCoordinator,
        events: EventLog,
        key: JobKey,
        created: Created,
        *,
        witness: FullKeys,
        patience: float,
    ) -> None:
        self._witness = witness
        self._patience = patience
        self._keys = keys
        self._events = events
        self._key = key
        self._created = created
        self._waiting = Waiting(
            job_id=created.job.job_id,
            created_at=created.at,
            request_id=created.context.request_id,
            context=created.context,
        )

    async def enter(self) -> Entered:
        """Raises KeyBusy or QueueFull when the queue's policy lets no new job in."""
        while True:
            asked = await self._keys.admit(self._key, self._waiting)
            if isinstance(asked, Rejected | CoalescedInto):
                if await self._witness.evict_what_is_over(self._keys, self._key, asked.state):
                    continue
                raise self._turned_away(asked)
            try:
                entered = await self._append(asked)
            except NotConfirmed:
                raise  # It may be in the log; if not, the reservation is forgotten in a minute.
            except JobsError as error:
                if not (isinstance(error, JobExists) and await self._is_the_twins()):
                    await self._take_back(asked.replaced if isinstance(asked, Replaced) else None)
                raise
            if entered is not None:
                return entered
            # The one that was to make way runs by now: ask again, with nothing reserved.
            await self._take_back()

    async def _append(self, asked: Admitted | Replaced) -> Entered | None:
        if isinstance(asked, Admitted):
            return await self._append_alone()
        victim = replace(self._created.job, job_id=asked.replaced.job_id)
        latest = await self._keys.latest(victim.job_id)
        if latest is None:
            return await self._replace_unborn(victim)
        return await self._replace(latest, victim)

    async def _append_alone(self, policy: QueuePolicy = _ACCEPTED) -> Entered:
        head = await self._events.try_append(None, self._said(policy), timeout=self._patience)
        if isinstance(head, Refused):
            raise JobExists(self._created.job.job_id)
        return Entered(head)

    async def _replace(self, latest: Latest, victim: JobAddress) -> Entered | None:
        """None: the victim has started, so it does not make way."""
        while not latest.head.status.is_over:
            if latest.head.status.state is JobState.ACTIVE:
                return None
            entered = await self._append_both(latest, victim)
            if entered is not None:
                return entered
            if await self._events.head(self._created.job) is not None:
                raise JobExists(self._created.job.job_id)
            latest = await self._keys.latest(victim.job_id, latest.head.sequence) or latest
        return await self._append_alone()

    async def _replace_unborn(self, victim: JobAddress) -> Entered:
        """The victim has its place, and is not in the log yet.

        Its producer may wait for one that is to make way for it: whoever waited here before being
        in the log would make others wait in turn.
        """
        entered = await self._append_alone(_replacing(victim))
        for pause in _LOOKS:
            await asyncio.sleep(pause)
            latest = await self._keys.latest(victim.job_id)
            if latest is not None:
                return await self._skip(latest, victim, entered.head)
        return entered

    async def _append_both(self, latest: Latest, victim: JobAddress) -> Entered | None:
        """Both or neither where the log can; else the new one first: one of them must run."""
        created, skipped = self._said(_replacing(victim)), self._skipped(latest, victim)
        both = await self._events.try_append_together(
            [(latest.head, skipped), (None, created)], timeout=self._patience
        )
        if both is not None:
            return None if isinstance(both, Refused) else Entered(both[1], victim.job_id)
        entered = await self._append_alone(_replacing(victim))
        return await self._skip(latest, victim, entered.head)

    async def _skip(self, latest: Latest, victim: JobAddress, entered: Head) -> Entered:
        """A skip that comes too late replaces nobody: both run."""
        if latest.head.status.state not in _MAKING_WAY:
            return Entered(entered)
        skipped = self._skipped(latest, victim)
        try:
            gone = await self._events.append(
                latest.head, skipped, timeout=self._patience, shared=self._keys.shared
            )
        except StreamFull as full:
            log.warning("job %s was not skipped, so both run: %s", victim.job_id, full)
            return Entered(entered)
        return Entered(entered, victim.job_id if isinstance(gone, Head) else None)

    def _skipped(self, latest: Latest, victim: JobAddress) -> Skipped:
        return Skipped(
            job=victim,
            context=latest.context,
            at=self._created.at,
            tries=latest.head.status.tries,
            by=victim.service,
            reason=f"job {self._created.job.job_id} replaced it in the queue of its key",
        )

    async def _is_the_twins(self) -> bool:
        """A job of this id was quicker, under the same key: the place that was made is its own."""
        job = self._created.job
        first, head = await self._events.last(job, EventKind.CREATED), await self._events.head(job)
        if head is None or head.status.is_over or first is None:
            return False
        said = first.event.concurrency if isinstance(first.event, Created) else None
        return said is not None and said.key_hash == self._key.hash

    async def _take_back(self, replaced: Waiting | None = None) -> None:
        try:
            await self._keys.cancel_reservation(self._key, self._waiting, replaced)
        except JobsError as error:
            log.warning(
                "the reservation of job %s in key %s was not taken back; it ends by itself in a "
                "minute: %s",
                self._waiting.job_id,
                self._key.display,
                error,
                extra={
                    "key": self._key.display,
                    "job": self._waiting.job_id,
                    "error": str(error),
                },
            )

    def _said(self, policy: QueuePolicy) -> Created:
        return replace(self._created, queue_policy=policy)

    def _turned_away(self, asked: Rejected | CoalescedInto) -> NotAdmitted:
        state, reason = asked.state, asked.why.reason
        full = FullKey(
            key=self._key.display,
            reason=reason.value,
            active=len(state.active),
            queued=len(state.queued),
            limit=asked.why.limit,
            existing_job_id=oldest(state),
        )
        kind = QueueFull if reason is Refusal.QUEUE_DEPTH else KeyBusy
        return kind(full, coalesced=isinstance(asked, CoalescedInto))


def _replacing(victim: JobAddress) -> QueuePolicy:
    return QueuePolicy(
        outcome="replaced", reason=WhenFull.REPLACE_OLDEST, replaced_job_id=victim.job_id
    )
