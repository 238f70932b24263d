"""The record of a schedule, which every process of its service reads and writes.

Writers replace it by compare-and-set. The decision about a tick is in the record before its job is
created, so processes that disagree about the time, a pause or a definition cannot both be right.
States, writers and crash points are in docs/adr/0016-schedules.md.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Final

from msgspec import field

from trellis_jobs.model.schedules.definition import Overlap, ScheduleDefinition
from trellis_jobs.model.values import Value

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from trellis_jobs.model.json_values import Json
    from trellis_jobs.model.schedules.address import ScheduleAddress

MAX_RUNS: Final = 10
# Skipped ticks are counted up to this number; more are not distinguished.
MAX_COUNT: Final = 1_000


class Origin(StrEnum):
    """CONTRACT: declared with the queue. RUNTIME: made by code or an operator."""

    CONTRACT = "contract"
    RUNTIME = "runtime"


class SkipReason(StrEnum):
    """Why ticks have no job.

    MISSED: no process fired them in time. PAUSED: they were during a pause. OVERLAP: the previous
    job had not ended, or a newer tick replaced them. CHANGED: the schedule got another timing.
    """

    MISSED = "missed"
    PAUSED = "paused"
    OVERLAP = "overlap"
    CHANGED = "changed"


class Pause(Value, frozen=True, kw_only=True):
    """Without `until`, the schedule is paused until someone resumes it."""

    since: datetime
    until: datetime | None = None
    by: str | None = None
    reason: str | None = None


class Cancellation(Value, frozen=True):
    """A job to cancel before another is created; a running job only with `even_if_running`."""

    job_id: str
    even_if_running: bool = False


class PlannedJob(Value, frozen=True, kw_only=True):
    """A job that was decided and may not have been created.

    `tick` is the time for which it is scheduled. A job that someone `triggered` has the time of
    that request instead, and `by` whom. `cancel` is the job of an earlier tick, `cancel_triggered`
    one that someone triggered.
    """

    job_id: str
    tick: datetime
    cancel: Cancellation | None = None
    cancel_triggered: Cancellation | None = None
    triggered: bool = False
    by: str | None = None

    @property
    def cancellations(self) -> tuple[Cancellation, ...]:
        both = (self.cancel, self.cancel_triggered)
        return tuple(each for each in both if each is not None)


class Run(Value, frozen=True, kw_only=True):
    """What became of a tick, or of `count` ticks up to this one. `at` is when it was decided.

    `refused` is why the job could not be created, such as a key that admits no more jobs.
    """

    tick: datetime
    at: datetime
    job_id: str | None = None
    skipped: SkipReason | None = None
    count: int = 1
    refused: str | None = None
    triggered: bool = False
    by: str | None = None


class ScheduleRecord(Value, frozen=True, kw_only=True):
    """`decided_until`: all ticks up to this time are decided, and none of them is decided again.

    `unfinished` are jobs that were decided and may not have been created. Their ids are fixed, so
    any process may create them again. `last_job` is the job of the newest tick and
    `last_triggered` the job that was triggered last, both for the overlap policy: the older of the
    two may live longer. `runs` are the newest decisions, in order. `by` is who made the
    schedule, or changed it last. `unknown` holds fields of later versions, which are preserved.
    """

    address: ScheduleAddress
    definition: ScheduleDefinition
    origin: Origin
    decided_until: datetime
    created_at: datetime
    updated_at: datetime
    by: str | None = None
    unfinished: tuple[PlannedJob, ...] = ()
    paused: Pause | None = None
    last_job: str | None = None
    last_triggered: str | None = None
    runs: tuple[Run, ...] = ()
    unknown: Mapping[str, Json] = field(default_factory=dict)

    @property
    def previous_job(self) -> str | None:
        """The job whose state `fire` needs; None if it needs none."""
        return None if self.definition.overlap is Overlap.ALLOW else self.last_job

    @property
    def previous_triggered(self) -> str | None:
        """Likewise, the job that was triggered last."""
        return None if self.definition.overlap is Overlap.ALLOW else self.last_triggered


def with_runs(record: ScheduleRecord, *added: Run) -> tuple[Run, ...]:
    return (*record.runs, *added)[-MAX_RUNS:]


class Decision(Value, frozen=True):
    """The record to write, and the time for which to set the schedule's alarm.

    The alarm is set first, so it is never later than the record says. If `alarm_at` has passed,
    the schedule is due at once; None means that it has nothing to do.
    """

    record: ScheduleRecord
    alarm_at: datetime | None
