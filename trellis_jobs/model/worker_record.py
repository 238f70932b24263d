"""The record of a worker process in JOBS_CONTROL, and the rules for its writers.

The worker changes its profile, state, beat and active jobs. Operators change the directive, and
admin runtimes the verdict. Every write is guarded by the revision that the writer has read, so a
beat that is stored proves that no other process has written meanwhile (design D26).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Final, TypeAlias

from msgspec import field

from trellis_jobs.model.identity import JobAddress
from trellis_jobs.model.values import Value, replace
from trellis_jobs.model.worker_states import WorkerState

DEFAULT_DEAD_AFTER: Final = timedelta(seconds=25)
# Characters of an application's version, and of each of its labels.
MAX_LABEL_LENGTH: Final = 200
MAX_BEAT_INTERVAL: Final = timedelta(seconds=5)
# A worker counts as dead after this many intervals without a beat, or later.
_BEATS_UNTIL_DEAD: Final = 5
# A worker that missed a whole beat is shown to operators.
_LATE_INTERVALS: Final = 2
# The other active jobs of a dead worker are found in the projection.
MAX_REPORTED_JOBS: Final = 10_000
# The server removes the record of a worker that is gone, also when no admin runtime is there.
_MIN_LIFETIME: Final = timedelta(seconds=300)
_LIFETIME_IN_DEAD_AFTER: Final = 4
ENDED_LIFETIME: Final = timedelta(seconds=60)

# Job ids by job type.
JobIds: TypeAlias = Mapping[str, tuple[str, ...]]


class QueueSlots(Value, frozen=True):
    """A queue of a worker, and how many of its jobs the worker runs at once."""

    job_type: str
    concurrency: int


class WorkerProfile(Value, frozen=True, kw_only=True):
    """What stays the same for the lifetime of a worker process.

    `queues` are in the order of their importance. `other_queues` are those that its code declares
    too; None if its version does not say. `concurrency` is the limit of the whole process.
    `version` is that of this library, `app_version` that of the application.
    """

    service: str
    instance: str
    hostname: str
    pid: int
    started_at: datetime
    queues: tuple[QueueSlots, ...]
    concurrency: int
    other_queues: tuple[str, ...] | None = None
    version: str | None = None
    app_version: str | None = None
    labels: tuple[str, ...] = ()
    dead_after: timedelta = DEFAULT_DEAD_AFTER

    @property
    def known_queues(self) -> frozenset[str] | None:
        """All queues that its code declares. None if its version does not say."""
        if self.other_queues is None:
            return None
        return frozenset((*(queue.job_type for queue in self.queues), *self.other_queues))

    @property
    def interval(self) -> timedelta:
        """The time between two beats."""
        return beat_interval(self.dead_after)


class Directive(Value, frozen=True, kw_only=True):
    """The state that an operator wants. `epoch` counts the directives to this worker."""

    state: WorkerState
    epoch: int
    at: datetime
    by: str | None = None
    reason: str | None = None


class Verdict(Value, frozen=True, kw_only=True):
    """An admin runtime has declared the worker dead. `lost` are the jobs that it recovers.

    `is_recovered`: all of these jobs were handed to other workers or have ended.
    """

    by: str
    at: datetime
    lost: JobIds
    is_recovered: bool = False


class WorkerRecord(Value, frozen=True, kw_only=True):
    """`active` are the jobs whose handlers run. `held` were delivered and wait for their keys."""

    profile: WorkerProfile
    state: WorkerState = WorkerState.RUNNING
    beat: int = 0
    active: JobIds = field(default_factory=dict)
    held: JobIds = field(default_factory=dict)
    directive: Directive | None = None
    verdict: Verdict | None = None

    @property
    def epoch(self) -> int:
        return 0 if self.directive is None else self.directive.epoch

    @property
    def active_jobs(self) -> int:
        return sum(map(len, self.active.values()))

    def has_job(self, job: JobAddress) -> bool:
        """Whether the worker runs the job or holds its delivery."""
        return job.service == self.profile.service and any(
            job.job_id in ids.get(job.job_type, ()) for ids in (self.active, self.held)
        )

    @property
    def has_ended(self) -> bool:
        """Whether the worker has stopped or was declared dead: it takes no more directives."""
        return self.verdict is not None or self.state is WorkerState.TERMINATED

    @property
    def lifetime(self) -> timedelta:
        """How long the server keeps the record after this write."""
        if self.state is WorkerState.TERMINATED or (self.verdict and self.verdict.is_recovered):
            return ENDED_LIFETIME
        return max(_MIN_LIFETIME, _LIFETIME_IN_DEAD_AFTER * self.profile.dead_after)


def beat_interval(dead_after: timedelta) -> timedelta:
    return min(MAX_BEAT_INTERVAL, dead_after / _BEATS_UNTIL_DEAD)


class WorkerStatus(Value, frozen=True):
    """What a beat reports besides the worker's profile."""

    state: WorkerState
    active: JobIds = field(default_factory=dict)
    held: JobIds = field(default_factory=dict)


def next_beat(record: WorkerRecord, status: WorkerStatus) -> WorkerRecord:
    """The record that the worker writes next, on top of the one that it knows."""
    return replace(
        record,
        state=status.state,
        beat=record.beat + 1,
        active=_limited(status.active),
        held=_limited(status.held),
    )


def _limited(reported: JobIds) -> JobIds:
    left = MAX_REPORTED_JOBS
    limited: dict[str, tuple[str, ...]] = {}
    for job_type, ids in reported.items():
        limited[job_type] = ids[:left]
        left -= len(limited[job_type])
    return {job_type: ids for job_type, ids in limited.items() if ids}


class Continue(Value, frozen=True):
    """Write the beat again on top of `revision`; follow `directive` if there is a new one."""

    revision: int
    directive: Directive | None = None


class RegisterAgain(Value, frozen=True):
    """The record is gone, and no admin runtime can have declared this worker dead."""


class DeclaredDead(Value, frozen=True):
    """The worker was declared dead. Without a verdict, the record had been removed since."""

    verdict: Verdict | None


AfterRefusal: TypeAlias = Continue | RegisterAgain | DeclaredDead


def after_refusal(
    own: WorkerRecord, stored: tuple[WorkerRecord, int] | None, silent_for: timedelta
) -> AfterRefusal:
    """Decide what a worker does whose beat was refused. `stored` has its revision.

    `silent_for`: the time since its last stored beat, on the worker's own clock. An admin runtime
    measures the same time from a later moment, so below `dead_after` there is no verdict.
    """
    if stored is None:
        if silent_for < own.profile.dead_after:
            return RegisterAgain()
        return DeclaredDead(None)
    found, revision = stored
    if found.verdict is not None:
        return DeclaredDead(found.verdict)
    return Continue(revision, found.directive if found.epoch > own.epoch else None)


class Refusal(Value, frozen=True):
    """Why a directive was not written."""

    reason: str


def direct(
    record: WorkerRecord, state: WorkerState, *, at: datetime, by: str | None, reason: str | None
) -> WorkerRecord | Refusal | None:
    """Write a directive. Returns None when the worker has followed the same one already.

    The directive before it counts, too: a worker that was directed to terminate cannot be resumed.
    """
    if record.verdict is not None:
        return Refusal("it was declared dead")
    if record.state is WorkerState.TERMINATED:
        return Refusal("it has stopped")
    expected = record.state if record.directive is None else record.directive.state
    if WorkerState.TERMINATE in (record.state, expected) and state is not WorkerState.TERMINATE:
        return Refusal("it is stopping")
    if record.state is state and expected is state:
        return None
    directive = Directive(state=state, epoch=record.epoch + 1, at=at, by=by, reason=reason)
    return replace(record, directive=directive)


def misses_beats(record: WorkerRecord, unchanged_for: timedelta) -> bool:
    """Whether a worker is late with its beat, but does not have to be dead."""
    return not record.has_ended and unchanged_for >= _LATE_INTERVALS * record.profile.interval


def is_silent(record: WorkerRecord, unchanged_for: timedelta) -> bool:
    """Whether a worker counts as dead whose record did not change for this time."""
    return not record.has_ended and unchanged_for >= record.profile.dead_after


def declare_dead(record: WorkerRecord, *, by: str, at: datetime, lost: JobIds) -> WorkerRecord:
    return replace(record, verdict=Verdict(by=by, at=at, lost=lost))


def with_jobs(ids: JobIds, jobs: Iterable[JobAddress]) -> JobIds:
    """Add jobs to ids by type; each id is there once."""
    found = {job_type: dict.fromkeys(each) for job_type, each in ids.items()}
    for job in jobs:
        found.setdefault(job.job_type, {})[job.job_id] = None
    return {job_type: tuple(each) for job_type, each in found.items()}


def lose_also(record: WorkerRecord, jobs: Iterable[JobAddress]) -> WorkerRecord:
    """Add jobs of a dead worker that were found after the verdict."""
    if record.verdict is None:
        return record
    return replace(
        record, verdict=replace(record.verdict, lost=with_jobs(record.verdict.lost, jobs))
    )


def lost_jobs(record: WorkerRecord) -> list[JobAddress]:
    """The jobs of a dead worker that are to be recovered."""
    lost = {} if record.verdict is None else record.verdict.lost
    service = record.profile.service
    return [JobAddress(service, job_type, each) for job_type, ids in lost.items() for each in ids]


def recovered(record: WorkerRecord) -> WorkerRecord:
    """The record of a dead worker all of whose jobs are in other hands."""
    if record.verdict is None:
        return record
    return replace(record, verdict=replace(record.verdict, is_recovered=True))
