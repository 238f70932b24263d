"""The facts a job's history is made of, one class per fact."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, ClassVar, TypedDict

from trellis_jobs.model.notes import NOTHING_NOTED, Notes
from trellis_jobs.model.redaction import redacted
from trellis_jobs.model.values import Value, repr_with

if TYPE_CHECKING:
    from datetime import datetime, timedelta

    from trellis_jobs.model.attempts import Attempt
    from trellis_jobs.model.concurrency import Concurrency, QueuePolicy
    from trellis_jobs.model.context import JobContext
    from trellis_jobs.model.identity import JobAddress
    from trellis_jobs.model.job_errors import JobError
    from trellis_jobs.model.json_values import Json


class EventKind(StrEnum):
    """The words of the wire; `retry` is RetryScheduled here, `retried` is an operator's Retried."""

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
    """What every event says, ready to be unpacked into the class of one."""

    job: JobAddress
    context: JobContext
    at: datetime
    tries: int


class DecidedFields(TypedDict):
    """Who decided something about a job, why, and with which request, if anybody asked for it."""

    by: str | None
    reason: str | None
    request: str | None


class AttemptFields(EventFields):
    attempt: Attempt | None
    concurrency: Concurrency | None


class Event(Value, frozen=True, kw_only=True):
    """`tries` counts the tries used up once this event has happened."""

    kind: ClassVar[EventKind]

    job: JobAddress
    context: JobContext
    at: datetime
    tries: int


class Begun(Event, frozen=True, kw_only=True):
    """A run of the job begins: its work message carries this very event.

    `version` is of the payload; `secrets` are the places in it that are not shown.
    """

    payload: Json
    max_tries: int
    version: int = 1
    secrets: tuple[str, ...] = ()
    deadline: datetime | None = None
    concurrency: Concurrency | None = None
    queue_policy: QueuePolicy | None = None

    def __repr__(self) -> str:
        return repr_with(self, payload=redacted(self.payload, self.secrets))


class Created(Begun, frozen=True, kw_only=True):
    kind: ClassVar[EventKind] = EventKind.CREATED


class Retried(Begun, frozen=True, kw_only=True):
    """An operator began a fresh run of a job that had failed or died."""

    kind: ClassVar[EventKind] = EventKind.RETRIED

    by: str | None = None
    reason: str | None = None
    request: str | None = None


class AttemptEvent(Event, frozen=True, kw_only=True):
    """Said by, or about, one attempt. A foreign runtime records none: then it is None."""

    attempt: Attempt | None
    notes: Notes = NOTHING_NOTED
    concurrency: Concurrency | None = None


class Started(AttemptEvent, frozen=True, kw_only=True):
    """`waited_for_key`: how long its delivery did; None where there is no key, or nobody said."""

    kind: ClassVar[EventKind] = EventKind.STARTED

    waited_for_key: timedelta | None = None


class Progressed(AttemptEvent, frozen=True, kw_only=True):
    kind: ClassVar[EventKind] = EventKind.PROGRESS


class Logged(AttemptEvent, frozen=True, kw_only=True):
    kind: ClassVar[EventKind] = EventKind.LOGGED


class Heartbeat(AttemptEvent, frozen=True, kw_only=True):
    kind: ClassVar[EventKind] = EventKind.HEARTBEAT


class RetryScheduled(AttemptEvent, frozen=True, kw_only=True):
    """The attempt is over and the job will be tried again; a takeover names the attempt it ends."""

    kind: ClassVar[EventKind] = EventKind.RETRY

    error: JobError
    next_attempt_at: datetime | None = None


class Completed(AttemptEvent, frozen=True, kw_only=True):
    """`secrets`: the places in its result that are not shown."""

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
    """The attempt's key lease ended before the attempt did."""

    kind: ClassVar[EventKind] = EventKind.STALE

    error: JobError


class StaleCompletionIgnored(Event, frozen=True, kw_only=True):
    """A note: an attempt that no longer owned the job wanted to say something."""

    kind: ClassVar[EventKind] = EventKind.STALE_COMPLETION_IGNORED

    lost_attempt: str | None
    reason: str


class Decided(Event, frozen=True, kw_only=True):
    """Said about the job by somebody other than its worker.

    `request` is the id of the request that asked for it: the context is the job's own.
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
