"""The past: events and durations over time, and the jobs as they were at a moment."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum

from jobs_admin.api.views.base import View
from jobs_admin.api.views.jobs import JobView


class BucketView(View):
    """How many attempts took at least `from_ms` and less than `to_ms`, which the last one lacks."""

    from_ms: float
    to_ms: float | None = None
    attempts: int


class StepPercentiles(View):
    """One number for each step, None for a step without attempts."""

    p50_ms: tuple[float | None, ...]
    p95_ms: tuple[float | None, ...]
    p99_ms: tuple[float | None, ...]


class DurationsView(View):
    """How long attempts took. Percentiles are estimated from the buckets; empty ones are left out.

    `steps` is there for one queue, or for all together, with steps of whole hours.
    """

    attempts: int
    p50_ms: float
    p95_ms: float
    p99_ms: float
    buckets: tuple[BucketView, ...]
    steps: StepPercentiles | None = None


class QueueHistory(View):
    service: str
    type: str
    events: dict[str, tuple[int, ...]]
    wait: DurationsView | None = None
    run: DurationsView | None = None


class HistoryView(View):
    """What happened from `since` to before `until`, which are whole steps.

    `events` has, for each kind that occurred, a number for each step. `wait` is how long attempts
    waited from when they were due until they started, `run` how long from there to their outcome.
    Both are of the whole hours from `durations_since` to before `durations_until`. `queues` has the
    same for each queue, if the request has `perQueue`. All times are those of the server.
    """

    since: datetime
    until: datetime
    step_minutes: int
    durations_since: datetime
    durations_until: datetime
    events: dict[str, tuple[int, ...]]
    wait: DurationsView | None = None
    run: DurationsView | None = None
    queues: tuple[QueueHistory, ...] = ()


class TypeStatesAt(View):
    service: str
    type: str
    states: dict[str, int]


class StatsAtView(View):
    """How many jobs were in which state at `at`: before the events that were stored from then on.

    `at` is the requested time, rounded down to `resolution_minutes`. The oldest time that can be
    answered is `earliest`. Jobs that retention removed are counted as long as they existed, if that
    was after `complete_since`, when the projection was made from the log; before that time, jobs
    are missing that retention had removed by then.
    """

    at: datetime
    resolution_minutes: int
    earliest: datetime | None = None
    complete_since: datetime | None = None
    states: dict[str, int]
    types: tuple[TypeStatesAt, ...]


class PastPart(StrEnum):
    """SAME: jobs that have not changed their state since. MOVED: those that have."""

    SAME = "same"
    MOVED = "moved"


class PastCursor(View):
    """Where a list of past jobs continues: after this job of this part."""

    part: PastPart
    stored_at: datetime
    first_seq: int


class JobsAtView(View):
    """Jobs as they were at `at`, without their log lines.

    First those that are still in the same state, then those that have moved since; a job that moves
    while pages are read may be in both parts. `examined` is how many jobs were looked at. If there
    may be more, `next_after` is where to continue, even if none of the examined jobs matched.
    Jobs that retention has removed since are not listed.
    """

    at: datetime
    entries: tuple[JobView, ...]
    examined: int
    next_after: PastCursor | None = None
