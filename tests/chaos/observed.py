"""What a campaign leaves behind, for the checker to judge."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from trellis_jobs.model.job import Entry
from trellis_jobs.model.keys.state import KeyState
from trellis_jobs.model.schedules.address import ScheduleAddress
from trellis_jobs.model.schedules.record import ScheduleRecord


@dataclass(frozen=True)
class Effects:
    """By attempt: how often its handler began, did what it is for, and snoozed the job."""

    begun: Counter[str] = field(default_factory=Counter)
    done: Counter[str] = field(default_factory=Counter)
    snoozed: Counter[str] = field(default_factory=Counter)


@dataclass(frozen=True)
class ScheduleVersion:
    revision: int
    record: ScheduleRecord


@dataclass(frozen=True, kw_only=True)
class Observed:
    """All of it after the faults stopped and everything had its time to end.

    `stored_at`: when the server stored the event at each sequence. `glimpsed`: what a reader that
    followed the log read at each sequence. `limits`: how many jobs of a key may run, by queue.
    `differing`: rows in which a projection is not the fold. `mistaken`: creates of new jobs that
    were told their job exists. `fell`: processes that ended by themselves. `outbursts`: errors that
    they only wrote down. `schedules`: versions of the records of schedules, not necessarily all.
    `late`: schedules that did not fire any more. `max_snoozes`: of a job, by queue.
    """

    entries: Sequence[Entry]
    stored_at: Mapping[int, datetime] = field(default_factory=dict)
    unreadable: Sequence[str] = ()
    glimpsed: Mapping[int, str] = field(default_factory=dict)
    acknowledged: frozenset[str] = frozenset()
    refused: frozenset[str] = frozenset()
    mistaken: frozenset[str] = frozenset()
    effects: Effects = field(default_factory=Effects)
    limits: Mapping[str, int] = field(default_factory=dict)
    max_snoozes: Mapping[str, int] = field(default_factory=dict)
    schedules: Sequence[ScheduleVersion] = ()
    late: Sequence[ScheduleAddress] = ()
    keys: Sequence[KeyState] = ()
    work_left: Sequence[str] = ()
    differing: Mapping[str, Sequence[str]] = field(default_factory=dict)
    fell: Sequence[str] = ()
    outbursts: Sequence[str] = ()


def glimpse(entry: Entry) -> str:
    """An event in short, to tell it from another."""
    return f"{entry.event.job.job_id} {entry.event.kind} {entry.event.at.isoformat()}"
