"""Decide what to do with the alarm of a job when its time has come.

A delayed job is in the log as `scheduled`, and an alarm reminds a worker process of it. The log
decides, and the alarm only says when to look: it may come early, twice, or without a job. The rule
that keeps this safe is that an alarm is never later than the log says (docs/adr/0015).
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Final, TypeAlias

from trellis_jobs.errors.connection import NotAppended
from trellis_jobs.model.delays import MOVABLE
from trellis_jobs.model.states import JobState
from trellis_jobs.model.values import Value

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from trellis_jobs.model.job_status import JobStatus

# Servers publish an alarm up to 250 ms late, so it is set earlier by this, and a worker process
# holds it until its moment.
LEAD: Final = timedelta(milliseconds=300)
# A worker process holds an alarm that is due this soon, instead of setting it again.
MAX_HOLD: Final = timedelta(seconds=1)
# Servers publish alarms beyond the year 2262 at once. A later alarm is set again after this time.
MAX_AHEAD: Final = timedelta(days=3650)
# For this long after an alarm was set, the event or record that it belongs to may still come. An
# alarm without one is dropped then, so a process that is slower gives up before (EventWindow).
EVENT_MAY_FOLLOW: Final = timedelta(seconds=60)
_EVENT_WINDOW: Final = 45.0


class EventWindow:
    """The time in which the event of an alarm may be appended. It begins before the alarm is set.

    `now` is a monotonic clock.
    """

    __slots__ = ("_ends_at", "_now")

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._ends_at = now() + _EVENT_WINDOW

    @property
    def is_over(self) -> bool:
        return self._now() >= self._ends_at

    def limit(self, timeout: float) -> float:
        """Returns the timeout of the append. Raises NotAppended if the window is over."""
        if self.is_over:
            raise NotAppended(_EVENT_WINDOW)
        return min(timeout, self._ends_at - self._now())


class Release(Value, frozen=True):
    """The job may run now: append `created`."""


class Hold(Value, frozen=True):
    """Wait, then decide again."""

    delay: timedelta


class SetAgain(Value, frozen=True):
    """The job was moved to a later time: set another alarm for it."""

    at: datetime


class CheckLater(Value, frozen=True):
    """The process that set the alarm has not written to the log yet, or will not.

    `within` is the time after which the job may be released as the log has it now.
    """

    within: timedelta | None = None


class Drop(Value, frozen=True):
    """No job waits for this alarm any more."""


AlarmDecision: TypeAlias = Release | Hold | SetAgain | CheckLater | Drop


def decide_alarm(
    status: JobStatus | None, *, now: datetime, age: timedelta, at: datetime
) -> AlarmDecision:
    """`status` is None if the job is not in the log; `age` is how long ago the alarm was set.

    `at` is the time for which it was set. If that is not earlier than what the log says, no event
    follows: the alarm is for this event, or for one that was refused.
    """
    event_may_follow = age < EVENT_MAY_FOLLOW
    if status is None:
        return CheckLater() if event_may_follow else Drop()
    run_at = status.next_attempt_at
    if status.state is not JobState.SCHEDULED or run_at is None:
        return CheckLater() if event_may_follow and status.state in MOVABLE else Drop()
    early = run_at - now
    if early <= timedelta():
        return Release()
    if early <= MAX_HOLD:
        return Hold(early)
    return CheckLater(early - LEAD) if event_may_follow and at < run_at else SetAgain(run_at)


def alarm_time(run_at: datetime, now: datetime) -> datetime | None:
    """When the server should publish the alarm. Returns None for at once."""
    if run_at - now <= MAX_HOLD:
        return None
    return min(run_at, now + MAX_AHEAD) - LEAD
