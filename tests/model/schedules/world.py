"""A world in which processes fire one schedule, step by step, and die between any two steps.

It has what the server stores: the record with its revision, one alarm, alarms that have come, and
the jobs in the log. A process is a generator: each `yield` is a place where it may stop for ever.
The steps are those of `trellis_jobs/scheduler/schedule_firing.py` and docs/adr/0016-schedules.md.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final, TypeAlias

from trellis_jobs.model.alarms import EVENT_MAY_FOLLOW
from trellis_jobs.model.schedules.changes import Refused, finish
from trellis_jobs.model.schedules.firing import fire, next_fire_time
from trellis_jobs.model.schedules.record import Cancellation, Decision, PlannedJob, ScheduleRecord
from trellis_jobs.model.states import LIVE, JobState

Steps: TypeAlias = Generator[None, None, None]
Change: TypeAlias = Callable[[ScheduleRecord, datetime], Decision | Refused]

# A writer whose write takes longer gives up.
WRITE_TIMEOUT: Final = EVENT_MAY_FOLLOW / 2


@dataclass(frozen=True)
class Alarm:
    at: datetime
    set_at: datetime


@dataclass(eq=False)
class Process:
    steps: Steps
    # The alarm that it works on, which comes again if it dies.
    alarm: Alarm | None = None


@dataclass
class World:
    record: ScheduleRecord
    now: datetime
    alarm: Alarm | None = None
    revision: int = 1
    due: list[Alarm] = field(default_factory=list)
    jobs: dict[str, JobState] = field(default_factory=dict)
    # How often the log accepted each job, also after the job was removed from it.
    accepted: Counter[str] = field(default_factory=Counter)
    running: list[Process] = field(default_factory=list)

    # What the server does

    def pass_time(self, now: datetime) -> None:
        """The alarm comes when its time has come."""
        self.now = max(self.now, now)
        if self.alarm is not None and self.alarm.at <= self.now:
            self.due.append(self.alarm)
            self.alarm = None

    def set_alarm(self, at: datetime | None) -> None:
        """An alarm is replaced by an earlier one only. One that is due comes at once."""
        if at is None:
            return
        alarm = Alarm(at, self.now)
        if at <= self.now:
            self.due.append(alarm)
        elif self.alarm is None or at < self.alarm.at:
            self.alarm = alarm

    def write(self, record: ScheduleRecord, revision: int) -> bool:
        if revision != self.revision:
            return False
        self.record, self.revision = record, revision + 1
        return True

    def create(self, job: PlannedJob) -> None:
        """The log refuses a job that it has."""
        if job.job_id not in self.jobs:
            self.jobs[job.job_id] = JobState.PENDING
            self.accepted[job.job_id] += 1

    def cancel(self, request: Cancellation) -> None:
        state = self.jobs.get(request.job_id)
        if state in LIVE and (request.even_if_running or state is not JobState.ACTIVE):
            self.jobs[request.job_id] = JobState.CANCELLED

    def purge(self) -> None:
        """Retention removes jobs that have ended; a create under their ids is then accepted.

        It does so long after their end, so no process is still about to create them.
        """
        held = {job.job_id for job in self.record.unfinished}
        for job_id, state in list(self.jobs.items()):
            if state not in LIVE and job_id not in held and not self.running:
                del self.jobs[job_id]

    # What processes do

    def receive(self) -> None:
        """A worker process receives an alarm."""
        if self.due:
            alarm = self.due.pop(0)
            self.running.append(Process(self._fire(alarm), alarm))

    def change(self, change: Change) -> None:
        """A service or an operator changes the schedule."""
        self.running.append(Process(self._change(change)))

    def step(self, which: int) -> None:
        process = self.running[which % len(self.running)]
        try:
            next(process.steps)
        except StopIteration:
            self.running.remove(process)

    def kill(self, which: int) -> None:
        """The alarm of a dead worker comes again."""
        process = self.running.pop(which % len(self.running))
        if process.alarm is not None:
            self.due.append(process.alarm)

    def kill_all(self) -> None:
        while self.running:
            self.kill(0)

    def _fire(self, alarm: Alarm) -> Steps:
        has_acted, next_alarm = False, None
        while True:
            record, revision = self.record, self.revision
            yield
            next_at = next_fire_time(record)
            if record.unfinished:
                yield from self._finish(record, revision)
                has_acted = True
            elif next_at is None or next_at > self.now:
                if next_at is None or next_at != next_alarm:
                    yield from self._too_early(alarm, next_at, has_acted)
                return
            elif (yield from self._decide(record, revision)):
                has_acted, next_alarm = True, next_fire_time(self.record)
            elif self.record.decided_until > record.decided_until:
                return

    def _decide(self, record: ScheduleRecord, revision: int) -> Generator[None, None, bool]:
        """Set the alarm, then write the decision. False if another process has written."""
        previous = self._state_of(record.previous_job)
        triggered = self._state_of(record.previous_triggered)
        yield
        decision = fire(record, now=self.now, previous=previous, triggered=triggered)
        self.set_alarm(decision.alarm_at)
        yield
        return self.write(decision.record, revision)

    def _state_of(self, job_id: str | None) -> JobState | None:
        return None if job_id is None else self.jobs.get(job_id)

    def _too_early(self, alarm: Alarm, next_at: datetime | None, has_acted: bool) -> Steps:
        """For a while, the process that set the alarm may still write an earlier tick."""
        if not has_acted and self.now - alarm.set_at < EVENT_MAY_FOLLOW:
            self.due.append(alarm)
            return
        self.set_alarm(next_at)
        yield

    def _finish(self, record: ScheduleRecord, revision: int) -> Steps:
        for job in record.unfinished:
            for cancellation in job.cancellations:
                self.cancel(cancellation)
                yield
            self.create(job)
            yield
        ids = [job.job_id for job in record.unfinished]
        self.write(finish(record, ids, now=self.now), revision)

    def _change(self, change: Change) -> Steps:
        while True:
            record, revision = self.record, self.revision
            yield
            begin, decision = self.now, change(record, self.now)
            if isinstance(decision, Refused):
                return
            self.set_alarm(decision.alarm_at)
            yield
            if self.now - begin > WRITE_TIMEOUT or self.write(decision.record, revision):
                return

    def settle(self) -> None:
        """Let everything that is due happen, without further faults."""
        while self.running or self.due:
            while self.running:
                self.step(0)
            self.pass_time(self.now + timedelta(seconds=10))
            self.receive()

    @property
    def alarm_is_late(self) -> bool:
        """Whether the alarm is later than the record says, so that a tick may be late."""
        wanted = next_fire_time(self.record)
        return wanted is not None and (self.alarm is None or self.alarm.at > wanted)
