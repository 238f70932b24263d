"""The events of a job's history, one class per kind of event."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, ClassVar, TypedDict

from trellis_jobs.model.job_errors import Interruption, JobError
from trellis_jobs.model.notes import NOTHING_NOTED, Notes
from trellis_jobs.model.redaction import redacted
from trellis_jobs.model.values import Value, repr_with

if TYPE_CHECKING:
    from datetime import datetime, timedelta

    from trellis_jobs.model.attempts import Attempt
    from trellis_jobs.model.concurrency import Concurrency, QueuePolicy
    from trellis_jobs.model.context import JobContext
    from trellis_jobs.model.identity import JobAddress
    from trellis_jobs.model.json_values import Json
    from trellis_jobs.model.try_limits import TryLimits


class EventKind(StrEnum):
    """Event names as stored. `retry` is RetryScheduled; `retried` is Retried, by an operator."""

    SCHEDULED = "scheduled"
    CREATED = "created"
    STARTED = "started"
    RETRY = "retry"
    PROGRESS = "progress"
    LOGGED = "logged"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"
    EXPIRED = "expired"
    SKIPPED = "skipped"
    STALE = "stale"
    HEARTBEAT = "heartbeat"
    STALE_COMPLETION_IGNORED = "staleCompletionIgnored"
    RETRIED = "retried"
    DEAD = "dead"
    DISMISSED = "dismissed"


class EventFields(TypedDict):
    """The fields that all events have, as keyword arguments for an event class."""

    job: JobAddress
    context: JobContext
    at: datetime
    tries: int


class DecidedFields(TypedDict):
    """Who decided something about a job, why, and the id of the request, if there was one."""

    by: str | None
    reason: str | None
    request: str | None


class DescribedFields(TypedDict):
    """All that is needed to run a job, as keyword arguments for a `Described` event."""

    payload: Json
    max_tries: int
    version: int
    secrets: tuple[str, ...]
    deadline: datetime | None
    try_limits: TryLimits | None
    concurrency: Concurrency | None
    schedule: str | None


class AttemptFields(EventFields):
    attempt: Attempt | None
    concurrency: Concurrency | None


class Event(Value, frozen=True, kw_only=True):
    """`tries` is the number of tries used up after this event."""

    kind: ClassVar[EventKind]

    job: JobAddress
    context: JobContext
    at: datetime
    tries: int

    @property
    def is_snooze(self) -> bool:
        """Whether the handler snoozed the job: its attempt ended, and did not fail."""
        return False


class Described(Event, frozen=True, kw_only=True):
    """An event with all that is needed to run the job.

    `version` is the payload's version. `secrets` are JSON Pointers to its secret fields. `run_at`
    is the time for which the job is or was scheduled; None if it was to run at once. `schedule` is
    the name of the schedule that created the job. `by`, `reason` and `request` say who created,
    moved, released or retried the job, why, and by which request; None if its service created it.
    """

    payload: Json
    max_tries: int
    version: int = 1
    secrets: tuple[str, ...] = ()
    deadline: datetime | None = None
    try_limits: TryLimits | None = None
    concurrency: Concurrency | None = None
    queue_policy: QueuePolicy | None = None
    run_at: datetime | None = None
    schedule: str | None = None
    by: str | None = None
    reason: str | None = None
    request: str | None = None

    def __repr__(self) -> str:
        return repr_with(self, payload=redacted(self.payload, self.secrets))


class Scheduled(Described, frozen=True, kw_only=True):
    """The job exists and waits until `run_at`. Then a `created` event releases it (design D27).

    `deadline_after` is the queue's default deadline, counted from `run_at`: it moves with the job.
    """

    kind: ClassVar[EventKind] = EventKind.SCHEDULED

    run_at: datetime
    deadline_after: timedelta | None = None


class Begun(Described, frozen=True, kw_only=True):
    """A run of the job begins. The server copies this event into the run's work message."""


class Created(Begun, frozen=True, kw_only=True):
    kind: ClassVar[EventKind] = EventKind.CREATED


class Retried(Begun, frozen=True, kw_only=True):
    """An operator started a new run of a failed or dead job."""

    kind: ClassVar[EventKind] = EventKind.RETRIED


class AttemptEvent(Event, frozen=True, kw_only=True):
    """An event about one attempt. `attempt` is None when a foreign runtime wrote the event."""

    attempt: Attempt | None
    notes: Notes = NOTHING_NOTED
    concurrency: Concurrency | None = None


class Started(AttemptEvent, frozen=True, kw_only=True):
    """`waited_for_key`: how long the delivery waited. None without a key, or if not recorded.

    `app_version` is the version of the worker's application. None if it has none.
    """

    kind: ClassVar[EventKind] = EventKind.STARTED

    waited_for_key: timedelta | None = None
    app_version: str | None = None


class Progressed(AttemptEvent, frozen=True, kw_only=True):
    kind: ClassVar[EventKind] = EventKind.PROGRESS


class Logged(AttemptEvent, frozen=True, kw_only=True):
    kind: ClassVar[EventKind] = EventKind.LOGGED


class Heartbeat(AttemptEvent, frozen=True, kw_only=True):
    kind: ClassVar[EventKind] = EventKind.HEARTBEAT


class RetryScheduled(AttemptEvent, frozen=True, kw_only=True):
    """The attempt is over and the job will be retried. In a takeover, `attempt` is the lost one.

    After a snooze, `error` has the type `snooze` and the handler's reason. It is not a failure.
    """

    kind: ClassVar[EventKind] = EventKind.RETRY

    error: JobError
    next_attempt_at: datetime | None = None

    @property
    def is_snooze(self) -> bool:
        """A snooze gives its try back; an exception whose class is called `snooze` does not."""
        return self.error.type == Interruption.SNOOZE and self.tries < self.error.tries


class Completed(AttemptEvent, frozen=True, kw_only=True):
    """`secrets`: JSON Pointers to the secret fields of the result."""

    kind: ClassVar[EventKind] = EventKind.COMPLETED

    result: Json
    secrets: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return repr_with(self, result=redacted(self.result, self.secrets))


class Failed(AttemptEvent, frozen=True, kw_only=True):
    kind: ClassVar[EventKind] = EventKind.FAILED

    error: JobError


class Dead(AttemptEvent, frozen=True, kw_only=True):
    kind: ClassVar[EventKind] = EventKind.DEAD

    error: JobError


class Stale(AttemptEvent, frozen=True, kw_only=True):
    """The attempt's key lease expired while the attempt was running."""

    kind: ClassVar[EventKind] = EventKind.STALE

    error: JobError


class StaleCompletionIgnored(Event, frozen=True, kw_only=True):
    """A note that an attempt tried to write an event after it had lost the job."""

    kind: ClassVar[EventKind] = EventKind.STALE_COMPLETION_IGNORED

    lost_attempt: str | None
    reason: str


class Decided(Event, frozen=True, kw_only=True):
    """A decision about the job that its worker did not make, such as a cancellation.

    `request` is the id of the request that caused it; `context` holds the job's own request id.
    """

    by: str | None = None
    reason: str | None = None
    request: str | None = None


class Cancelled(Decided, frozen=True, kw_only=True):
    kind: ClassVar[EventKind] = EventKind.CANCELLED


class Expired(Decided, frozen=True, kw_only=True):
    kind: ClassVar[EventKind] = EventKind.EXPIRED


class Skipped(Decided, frozen=True, kw_only=True):
    kind: ClassVar[EventKind] = EventKind.SKIPPED


class Dismissed(Decided, frozen=True, kw_only=True):
    kind: ClassVar[EventKind] = EventKind.DISMISSED
