"""Releases a delayed job when its alarm comes: appends `created`, guarded by its newest event.

The log decides whether the job is still to be released, and when. Two processes with the same
alarm, a cancellation, or a move to another time at the same moment: the log accepts one of them,
and the others read the job again.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from trellis_jobs.errors import NotAdmitted, NotConfirmed
from trellis_jobs.jetstream.client.timeouts import retry_delay
from trellis_jobs.jetstream.log.event_log import Refused
from trellis_jobs.model.alarms import CheckLater, Drop, Hold, Release, SetAgain, decide_alarm
from trellis_jobs.model.delays import released
from trellis_jobs.model.events import EventKind, Scheduled, Skipped
from trellis_jobs.model.identity import JobAddress
from trellis_jobs.model.job_status import Head
from trellis_jobs.model.keys.backlog import WhenDue
from trellis_jobs.model.reducer import begin
from trellis_jobs.model.retry import DoublingDelay
from trellis_jobs.model.settlement import Ack, Nak
from trellis_jobs.model.states import JobState
from trellis_jobs.model.values import Value
from trellis_jobs.producer.admission import Admission, JobChanged

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trellis_jobs.contract.declaration import JobType
    from trellis_jobs.environment import Environment
    from trellis_jobs.jetstream.alarms.alarms import Alarms
    from trellis_jobs.jetstream.alarms.due_alarms import DueAlarm
    from trellis_jobs.jetstream.keys.coordinator import KeyCoordinator
    from trellis_jobs.jetstream.log.event_log import EventLog, Latest
    from trellis_jobs.model.alarms import AlarmDecision
    from trellis_jobs.model.events import Created, Event, EventFields
    from trellis_jobs.model.settlement import Answer
    from trellis_jobs.producer.full_keys import FullKeys
    from trellis_jobs.scheduler.alarm_handlers import HoldAlarm
    from trellis_jobs.telemetry import Telemetry

_TIMEOUT: Final = 30.0
# An alarm that comes before its event is delivered again after this delay, and then ever later.
_CHECK_DELAY: Final = DoublingDelay(timedelta(milliseconds=50), 8)
_READ_ATTEMPTS: Final = 40


class _KnownJob(Value, frozen=True):
    """The job as the log has it. `scheduled` is its newest such event, if it is delayed."""

    head: Head
    scheduled: Scheduled | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobReleaser:
    """`queues` are those of this process. A job of another queue is released without its key."""

    events: EventLog
    alarms: Alarms
    queues: Mapping[str, JobType[Any, Any]]
    keys: Mapping[str, KeyCoordinator]
    full_keys: FullKeys
    telemetry: Telemetry
    environment: Environment

    async def handle(self, alarm: DueAlarm, hold: HoldAlarm) -> Answer:
        address = alarm.address
        job = JobAddress(address.service, address.job_type, address.name)
        known, is_confirmed = await self._read(job), False
        while True:
            match decision := self._decide(alarm, known):
                case Release() if known is not None and known.scheduled is not None:
                    refused = await self._release(known.scheduled, known.head)
                    if refused is None:
                        return Ack()
                    known = await self._read_again(job, refused)
                case Hold(delay):
                    if not await hold(delay):
                        return Nak()
                case _ if not is_confirmed and _needs_leader(decision, alarm, known):
                    known, is_confirmed = await self._read_from_leader(job), True
                case _:
                    return await self._answer(decision, alarm)

    def _decide(self, alarm: DueAlarm, known: _KnownJob | None) -> AlarmDecision:
        now = self.environment.server_now()
        status = None if known is None else known.head.status
        return decide_alarm(status, now=now, age=alarm.age(now), at=alarm.at)

    async def _answer(self, decision: AlarmDecision, alarm: DueAlarm) -> Answer:
        match decision:
            case SetAgain(at):
                return await self.alarms.set_again(alarm.address, at, sequence=alarm.sequence)
            case CheckLater(within):
                delay = _CHECK_DELAY.after(alarm.deliveries, self.environment.random())
                return Nak(delay if within is None else min(delay, within))
            case _:
                return Ack()

    async def _read(self, job: JobAddress) -> _KnownJob | None:
        """Reads one event. If the job has a newer one, the guard of the append refuses it."""
        entry = await self.events.last(job, EventKind.SCHEDULED)
        if entry is None or not isinstance(entry.event, Scheduled):
            return None
        status = entry.status or begin(entry.event, entry.sequence)
        return _KnownJob(Head(entry.sequence, status), entry.event)

    async def _read_again(self, job: JobAddress, refused: Refused) -> _KnownJob | None:
        """Returns None if the job is not in the log any more."""
        latest = await self.events.latest_since(job, refused, shared=self._is_shared(job))
        return await self._known(job, latest)

    async def _read_from_leader(self, job: JobAddress) -> _KnownJob | None:
        latest = await self.events.latest_from_leader(job, shared=self._is_shared(job))
        return await self._known(job, latest)

    async def _known(self, job: JobAddress, latest: Latest | None) -> _KnownJob | None:
        if latest is None:
            return None
        if latest.head.status.state is not JobState.SCHEDULED:
            return _KnownJob(latest.head)
        return _KnownJob(latest.head, await self._scheduled_for(job, latest.head))

    async def _scheduled_for(self, job: JobAddress, head: Head) -> Scheduled:
        """A replica that is behind returns an older `scheduled` event, for another time."""
        for attempt in range(_READ_ATTEMPTS):
            known = await self._read(job)
            scheduled = None if known is None else known.scheduled
            if scheduled is not None and scheduled.run_at == head.status.next_attempt_at:
                return scheduled
            await asyncio.sleep(retry_delay(attempt))
        raise NotConfirmed(f"a read of the time of job {job.job_id}", None, job.job_id)

    async def _release(self, scheduled: Scheduled, head: Head) -> Refused | None:
        """Returns the refusal if the job has changed since it was read."""
        created = released(self._event_fields(scheduled, head), scheduled)
        with self.telemetry.appending(created):
            appended = await self._enter(created, head)
            if isinstance(appended, Refused):
                self.telemetry.mark_refused()
        if isinstance(appended, Refused):
            return appended
        self.telemetry.count(appended)
        return None

    async def _enter(self, created: Created, head: Head) -> Event | Refused:
        """Returns the event that was appended: `created`, or `skipped` if the key is full."""
        keys = self.keys.get(created.job.job_type)
        if keys is None or created.concurrency is None:
            answer = await self.events.try_append(head, created, timeout=_TIMEOUT)
            return answer if isinstance(answer, Refused) else created
        newest = await self.events.head(created.job, shared=keys.shared)
        if newest is not None and newest.sequence > head.sequence:
            # An alarm that has come twice: the job must not get another place in its key.
            return Refused(newest.sequence)
        admission = Admission(
            keys=keys,
            events=self.events,
            key=keys.key_of(created),
            created=created,
            full_keys=self.full_keys,
            timeout=_TIMEOUT,
            after=head,
            waits_if_full=keys.key_policy.when_due is WhenDue.WAIT,
        )
        try:
            await admission.enter()
        except JobChanged as changed:
            return changed.refusal
        except NotAdmitted as refusal:
            return await self._skip(created, head, refusal)
        return created

    async def _skip(self, created: Created, head: Head, refusal: NotAdmitted) -> Event | Refused:
        """The queue's policy admits no more jobs of the key, and applies to delayed ones too."""
        skipped = Skipped(
            job=created.job,
            context=created.context,
            at=created.at,
            tries=created.tries,
            by=created.job.service,
            reason=f"its key was full when its time came: {refusal}",
        )
        answer = await self.events.try_append(head, skipped, timeout=_TIMEOUT)
        return answer if isinstance(answer, Refused) else skipped

    def _event_fields(self, scheduled: Scheduled, head: Head) -> EventFields:
        return {
            "job": scheduled.job,
            "context": scheduled.context,
            "at": self.environment.now(),
            "tries": head.status.tries,
        }

    def _is_shared(self, job: JobAddress) -> bool:
        queue = self.queues.get(job.job_type)
        return queue is not None and queue.shared


def _needs_leader(decision: AlarmDecision, alarm: DueAlarm, known: _KnownJob | None) -> bool:
    """Whether the job would be late if the replica that was read is behind."""
    match decision:
        case SetAgain(at):
            return alarm.at < at
        case Drop():
            return known is None
        case _:
            return False
