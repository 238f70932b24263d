"""The facts a job's history is made of, one class per fact."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, ClassVar, TypedDict

from trellis_jobs.model.notes import NOTHING_NOTED, Notes

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """`tries` counts the tries used up once this event has happened."""

    kind: ClassVar[EventKind]

    job: JobAddress
    context: JobContext
    at: datetime
    tries: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Begun(Event):
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Created(Begun):
    kind: ClassVar[EventKind] = EventKind.CREATED


@dataclass(frozen=True, slots=True, kw_only=True)
class Retried(Begun):
    """An operator began a fresh run of a job that had failed or died."""

    kind: ClassVar[EventKind] = EventKind.RETRIED

    by: str | None = None
    reason: str | None = None
    request: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptEvent(Event):
    """Said by, or about, one attempt. A foreign runtime records none: then it is None."""

    attempt: Attempt | None
    notes: Notes = NOTHING_NOTED
    concurrency: Concurrency | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Started(AttemptEvent):
    """`waited_for_key`: how long its delivery did; None where there is no key, or nobody said."""

    kind: ClassVar[EventKind] = EventKind.STARTED

    waited_for_key: timedelta | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Progressed(AttemptEvent):
    kind: ClassVar[EventKind] = EventKind.PROGRESS


@dataclass(frozen=True, slots=True, kw_only=True)
class Logged(AttemptEvent):
    kind: ClassVar[EventKind] = EventKind.LOGGED


@dataclass(frozen=True, slots=True, kw_only=True)
class Heartbeat(AttemptEvent):
    kind: ClassVar[EventKind] = EventKind.HEARTBEAT


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryScheduled(AttemptEvent):
    """The attempt is over and the job will be tried again; a takeover names the attempt it ends."""

    kind: ClassVar[EventKind] = EventKind.RETRY

    error: JobError
    next_attempt_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Completed(AttemptEvent):
    """`secrets`: the places in its result that are not shown."""

    kind: ClassVar[EventKind] = EventKind.COMPLETED

    result: Json
    secrets: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed(AttemptEvent):
    kind: ClassVar[EventKind] = EventKind.FAILED

    error: JobError


@dataclass(frozen=True, slots=True, kw_only=True)
class Dead(AttemptEvent):
    kind: ClassVar[EventKind] = EventKind.DEAD

    error: JobError


@dataclass(frozen=True, slots=True, kw_only=True)
class Stale(AttemptEvent):
    """The attempt's key lease ended before the attempt did."""

    kind: ClassVar[EventKind] = EventKind.STALE

    error: JobError


@dataclass(frozen=True, slots=True, kw_only=True)
class StaleCompletionIgnored(Event):
    """A note: an attempt that no longer owned the job wanted to say something."""

    kind: ClassVar[EventKind] = EventKind.STALE_COMPLETION_IGNORED

    lost_attempt: str | None
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Decided(Event):
    """Said about the job by somebody other than its worker.

    `request` is the id of the request that asked for it: the context is the job's own.
    """

    by: str | None = None
    reason: str | None = None
    request: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Cancelled(Decided):
    kind: ClassVar[EventKind] = EventKind.CANCELLED


@dataclass(frozen=True, slots=True, kw_only=True)
class Expired(Decided):
    kind: ClassVar[EventKind] = EventKind.EXPIRED


@dataclass(frozen=True, slots=True, kw_only=True)
class Skipped(Decided):
    kind: ClassVar[EventKind] = EventKind.SKIPPED


@dataclass(frozen=True, slots=True, kw_only=True)
class Dismissed(Decided):
    kind: ClassVar[EventKind] = EventKind.DISMISSED
