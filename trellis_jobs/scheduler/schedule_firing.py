"""Fires a schedule when its alarm comes: decides about the ticks that are due, and creates jobs.

The decision is in the record before the first job is created. A process that dies after that leaves
jobs that are decided and perhaps not created: the next process with the alarm creates them again,
under the same ids, which the log accepts once (docs/adr/0016).
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from trellis_jobs.errors import JobExists, PayloadTooLarge
from trellis_jobs.jetstream.client.pub_ack import Refused
from trellis_jobs.jetstream.schedules.records import StoredSchedule
from trellis_jobs.model.alarms import EVENT_MAY_FOLLOW, LEAD, MAX_HOLD
from trellis_jobs.model.events import Begun, Cancelled, EventKind
from trellis_jobs.model.identity import JobAddress
from trellis_jobs.model.retry import DoublingDelay
from trellis_jobs.model.schedules.address import ScheduleAddress
from trellis_jobs.model.schedules.changes import finish
from trellis_jobs.model.schedules.firing import handover_delay, next_fire_time
from trellis_jobs.model.schedules.smaller_decisions import decisions_by_size
from trellis_jobs.model.settlement import Ack, Nak, NoAck
from trellis_jobs.model.states import JobState
from trellis_jobs.model.values import replace
from trellis_jobs.producer.tick_request import TICK_REFUSALS, tick_request

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from datetime import datetime

    from trellis_jobs.contract.declaration import JobType
    from trellis_jobs.environment import Environment
    from trellis_jobs.jetstream.alarms.alarms import Alarms
    from trellis_jobs.jetstream.alarms.due_alarms import DueAlarm
    from trellis_jobs.jetstream.keys.coordinator import KeyCoordinator
    from trellis_jobs.jetstream.log.event_log import EventLog, Latest
    from trellis_jobs.jetstream.schedules.schedules import Schedules
    from trellis_jobs.model.schedules.record import (
        Cancellation,
        Decision,
        PlannedJob,
        ScheduleRecord,
    )
    from trellis_jobs.model.settlement import Answer
    from trellis_jobs.producer.submission import Producer
    from trellis_jobs.scheduler.alarm_handlers import HoldAlarm

log = logging.getLogger(__name__)

_TIMEOUT: Final = 30.0
# Less than the lease of an alarm.
_RENEWAL_INTERVAL: Final = 1.0
# An alarm that comes before its record is delivered again after this delay, and then ever later.
_EARLY_DELAY: Final = DoublingDelay(timedelta(milliseconds=50), 8)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleFirer:
    """`queues` are those of this process. Schedules of other queues are left to other processes."""

    schedules: Schedules
    alarms: Alarms
    queues: Mapping[str, JobType[Any, Any]]
    keys: Mapping[str, KeyCoordinator]
    events: EventLog
    producer: Producer
    environment: Environment

    async def handle(self, alarm: DueAlarm, hold: HoldAlarm) -> Answer:
        at = alarm.address
        address = ScheduleAddress(at.service, at.job_type, at.name)
        stored, queue = await self.schedules.records.find(address), self.queues.get(at.job_type)
        if queue is None:
            return self._leave_to_others(alarm, stored)
        return await self._handle(alarm, hold, stored, queue)

    async def _handle(
        self, alarm: DueAlarm, hold: HoldAlarm, stored: StoredSchedule, queue: JobType[Any, Any]
    ) -> Answer:
        """Decides and creates, and reads again whenever another process has written meanwhile."""
        next_alarm, has_acted = None, False
        while stored.record is not None:
            record = stored.record
            if record.unfinished:
                stored, has_acted = await self._create_jobs(alarm, stored, record, queue), True
                continue
            next_at, now = next_fire_time(record), self.environment.server_now()
            if next_at is None or next_at - now > MAX_HOLD:
                is_set = next_at is not None and next_at == next_alarm
                return Ack() if is_set else await self._too_early(alarm, next_at, has_acted)
            if next_at <= now:
                fired = await self._fire(stored, record)
                if fired is None:
                    return await self._leave(alarm)
                (stored, next_alarm), has_acted = fired, True
            elif not await self._hold(alarm, next_at - now, hold):
                return Nak()
        return self._leave_to_others(alarm, stored)

    async def _hold(self, alarm: DueAlarm, delay: timedelta, hold: HoldAlarm) -> bool:
        is_over = await hold(delay)
        await alarm.renew()
        return is_over

    def _leave_to_others(self, alarm: DueAlarm, stored: StoredSchedule) -> Answer:
        """If there is a record, processes of another version know it, or its queue.

        Without one, the process that set the alarm writes it afterwards, unless it has died.
        """
        now = self.environment.server_now()
        if stored.exists:
            return Nak(handover_delay(now - alarm.at))
        if alarm.age(now) < EVENT_MAY_FOLLOW:
            return self._check_later(alarm)
        return Ack()

    async def _leave(self, alarm: DueAlarm) -> Answer:
        """Leaves a schedule to the process that has fired it.

        That process may hold another delivery of the same alarm, such as after a long pause of this
        process. Acknowledging it would then leave the schedule without any alarm.
        """
        has_newer = await self.alarms.has_newer(alarm.address, sequence=alarm.sequence)
        return Ack() if has_newer else NoAck()

    def _check_later(self, alarm: DueAlarm, within: timedelta | None = None) -> Answer:
        delay = _EARLY_DELAY.after(alarm.deliveries, self.environment.random())
        return Nak(delay if within is None else min(delay, within))

    async def _too_early(
        self, alarm: DueAlarm, next_at: datetime | None, has_acted: bool
    ) -> Answer:
        """Sets the alarm again, unless the record may still get an earlier tick."""
        now = self.environment.server_now()
        if not has_acted and alarm.age(now) < EVENT_MAY_FOLLOW:
            return self._check_later(alarm, None if next_at is None else next_at - now - LEAD)
        if next_at is None:
            return Ack()
        return await self.alarms.set_again(alarm.address, next_at, sequence=alarm.sequence)

    async def _fire(
        self, stored: StoredSchedule, record: ScheduleRecord
    ) -> tuple[StoredSchedule, datetime | None] | None:
        """Writes the decision about the ticks that are due, after the alarm of the next tick.

        Returns that alarm's time, too. It sets no alarm for a tick that comes so soon that it can
        hold the alarm it has. Returns None if another process has fired the schedule.
        """
        previous = await self._state_of(record, record.previous_job)
        triggered = await self._state_of(record, record.previous_triggered)
        now = self.environment.server_now()
        decision, written = await self._write_decision(
            decisions_by_size(record, now=now, previous=previous, triggered=triggered),
            stored,
            now,
        )
        if not isinstance(written, Refused):
            return StoredSchedule(decision.record, written), decision.alarm_at
        found = await self.schedules.records.find_after(written, record.address)
        if found.record is not None and found.record.decided_until > record.decided_until:
            return None
        return found, None

    async def _write_decision(
        self, decisions: Iterator[Decision], stored: StoredSchedule, now: datetime
    ) -> tuple[Decision, int | Refused]:
        """Writes the first decision that fits into one message."""
        decision = next(decisions)
        while True:
            if decision.alarm_at is not None and decision.alarm_at - now <= MAX_HOLD:
                decision = replace(decision, alarm_at=None)
            try:
                return decision, await self.schedules.write(decision, stored)
            except PayloadTooLarge as error:
                smaller = next(decisions, None)
                if smaller is None:
                    raise
                _log_too_large(decision, smaller, error)
                decision = smaller

    async def _state_of(self, record: ScheduleRecord, job_id: str | None) -> JobState | None:
        if job_id is None:
            return None
        head = await self.events.head(_job(record, job_id), shared=self._is_shared(record))
        return None if head is None else head.status.state

    async def _create_jobs(
        self,
        alarm: DueAlarm,
        stored: StoredSchedule,
        record: ScheduleRecord,
        queue: JobType[Any, Any],
    ) -> StoredSchedule:
        """Creates the jobs that are decided, and then records that they exist.

        Renews the alarm meanwhile: a thousand jobs can take longer than its lease.
        """
        created, refused = list[str](), dict[str, str]()
        renewed_at = self.environment.monotonic()
        for planned in record.unfinished:
            if self.environment.monotonic() - renewed_at >= _RENEWAL_INTERVAL:
                await alarm.renew()
                renewed_at = self.environment.monotonic()
            for cancel in planned.cancellations:
                await self._cancel(record, cancel)
            reason = await self._create(record, planned, queue)
            if reason is None:
                created.append(planned.job_id)
            else:
                refused[planned.job_id] = reason
        finished = finish(record, created, refused=refused, now=self.environment.now())
        written = await self.schedules.records.write(finished, stored.revision)
        if isinstance(written, Refused):
            return await self.schedules.records.find_after(written, record.address)
        return StoredSchedule(finished, written)

    async def _create(
        self, record: ScheduleRecord, planned: PlannedJob, queue: JobType[Any, Any]
    ) -> str | None:
        """Returns why the job cannot be created, or None."""
        try:
            request = tick_request(queue, record, planned.job_id, planned.tick)
            await self.producer.create(request)
        except JobExists:
            return None
        except TICK_REFUSALS as refusal:
            log.warning("schedule %s could not create a job: %s", record.address, refusal)
            return str(refusal)
        return None

    async def _cancel(self, record: ScheduleRecord, cancel: Cancellation) -> None:
        job, shared = _job(record, cancel.job_id), self._is_shared(record)
        latest = await self.events.latest(job, shared=shared)
        if latest is None:
            return

        def plan(latest: Latest) -> Cancelled | None:
            state = latest.head.status.state
            is_running = state is JobState.ACTIVE and not cancel.even_if_running
            if latest.head.status.is_over or is_running:
                return None
            fields = latest.event_fields(job, self.environment.now())
            reason = f"schedule {record.address.schedule} created a newer job"
            return Cancelled(**fields, by=job.service, reason=reason)

        await self.events.append_planned(job, latest, plan, timeout=_TIMEOUT, shared=shared)
        await self._leave_key(job)

    async def _leave_key(self, job: JobAddress) -> None:
        keys = self.keys.get(job.job_type)
        entry = None if keys is None else await self.events.last(job, EventKind.CREATED)
        if keys is not None and entry is not None and isinstance(entry.event, Begun):
            await keys.forget(keys.key_of(entry.event), job.job_id)

    def _is_shared(self, record: ScheduleRecord) -> bool:
        return self.queues[record.address.job_type].shared


def _log_too_large(decision: Decision, smaller: Decision, error: PayloadTooLarge) -> None:
    log.warning(
        "schedule %s: its record with %d new jobs has %d bytes, and the server's max_payload is "
        "%d: trying %d jobs. Use a smaller payload or a smaller max_catch_up",
        decision.record.address,
        len(decision.record.unfinished),
        error.size,
        error.limit,
        len(smaller.record.unfinished),
    )


def _job(record: ScheduleRecord, job_id: str) -> JobAddress:
    return JobAddress(record.address.service, record.address.job_type, job_id)
