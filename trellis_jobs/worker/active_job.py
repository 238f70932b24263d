"""What a handler knows about its job, and what it can report."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Generic, Protocol, TypeVar

from trellis_jobs.model.job_errors import bounded
from trellis_jobs.model.notes import LogLevel, Progress
from trellis_jobs.model.values import Value

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping
    from datetime import datetime

    from trellis_jobs.model.context import JobContext

P = TypeVar("P")


class Noted:
    """An awaitable that is done already: async handlers may await it, sync handlers need not."""

    __slots__ = ()

    def __await__(self) -> Generator[None, None, None]:
        return
        yield


_NOTED = Noted()
_MAX_COUNT: Final = 2**53 - 1
_MAX_TEXT_LENGTH: Final = 1_000
_PYTHON_LEVELS: Final[Mapping[str, str]] = {
    "debug": "info",
    "warning": "warn",
    "critical": "error",
}


class AttemptBackend(Protocol):
    """What an ActiveJob asks of its worker. A sync handler calls it from its own thread."""

    @property
    def has_ended(self) -> bool: ...

    def scrub(self, text: str) -> str:
        """Returns the text without the secrets of the job's payload."""

    def note_progress(self, progress: Progress) -> None: ...

    def note_log(self, level: LogLevel, message: str) -> None: ...

    def renew_now(self) -> None: ...

    @property
    def key_lease(self) -> KeyLease | None: ...


@dataclass(frozen=True, slots=True)
class KeyLease:
    """The lease of the job's slot of its key, and whether the job still holds it."""

    renewed_at: datetime
    expires_at: datetime
    is_held: bool


class AttemptFacts(Value, frozen=True, kw_only=True):
    """What is known about an attempt before its handler runs."""

    id: str
    context: JobContext
    tries: int
    max_tries: int
    redelivered: int = 0
    deadline: datetime | None = None
    key: str | None = None
    scheduled_for: datetime | None = None
    schedule: str | None = None
    snoozes: int = 0


class ActiveJob(Generic[P]):
    """One attempt at a job, as its handler gets it."""

    __slots__ = ("_backend", "_facts", "payload")

    def __init__(self, backend: AttemptBackend, payload: P, facts: AttemptFacts) -> None:
        self._backend = backend
        self._facts = facts
        self.payload = payload

    @property
    def id(self) -> str:
        return self._facts.id

    @property
    def context(self) -> JobContext:
        """The request id and trace of the job, for logs and for calls that the handler makes."""
        return self._facts.context

    @property
    def scheduled_for(self) -> datetime | None:
        """When the job was to run: its `run_at`, or the tick of the schedule that created it."""
        return self._facts.scheduled_for

    @property
    def schedule(self) -> str | None:
        """The name of the schedule that created the job."""
        return self._facts.schedule

    @property
    def tries(self) -> int:
        """The number of this try, starting at 1."""
        return self._facts.tries

    @property
    def max_tries(self) -> int:
        return self._facts.max_tries

    @property
    def snoozes(self) -> int:
        """How often the job was snoozed before this attempt. A retry by an operator starts at 0."""
        return self._facts.snoozes

    @property
    def redelivered(self) -> int:
        """How often the job's message was delivered before, whether or not that used a try."""
        return self._facts.redelivered

    @property
    def deadline(self) -> datetime | None:
        return self._facts.deadline

    @property
    def key(self) -> str | None:
        """The readable key whose slot this attempt holds. None on a queue without keys."""
        return self._facts.key

    @property
    def key_lease(self) -> KeyLease | None:
        """The slot's current lease, which the worker renews. None on a queue without keys."""
        return self._backend.key_lease

    @property
    def cancelled(self) -> bool:
        """True when the handler should stop as soon as it can.

        The job ended, timed out, or belongs to another attempt now, or the worker is stopping.
        """
        return self._backend.has_ended

    def progress(
        self,
        *,
        current: int | None = None,
        total: int | None = None,
        step: str | None = None,
        message: str | None = None,
    ) -> Noted:
        """Reports how far the work is, in whole numbers. Of frequent calls the latest is kept."""
        self._backend.note_progress(
            Progress(
                step=self._text(step),
                message=self._text(message),
                current=_count(current),
                total=_count(total),
            )
        )
        return _NOTED

    def log(self, message: str, level: str | LogLevel = LogLevel.INFO) -> Noted:
        """Adds a line to the job's log. Levels are info, warn and error, and those of Python."""
        self._backend.note_log(_level(level), self._backend.scrub(str(message)))
        return _NOTED

    def heartbeat(self) -> Noted:
        """Renews the leases now. The worker also renews them by itself, in another thread.

        On a queue that declares renew="manual" it does not: call this in every `visibility`.
        """
        self._backend.renew_now()
        return _NOTED

    def _text(self, value: object) -> str | None:
        """Accepts any value: an argument of the wrong type must not fail the job."""
        return None if value is None else bounded(self._backend.scrub(str(value)), _MAX_TEXT_LENGTH)

    def __repr__(self) -> str:
        return f"ActiveJob({self.id}, try {self.tries} of {self.max_tries})"


def _count(value: int | None) -> int | None:
    """Limits a count to what readers in every language can represent exactly."""
    return None if value is None else max(0, min(round(value), _MAX_COUNT))


def _level(level: str) -> LogLevel:
    name = _PYTHON_LEVELS.get(level, level)
    if name not in set(LogLevel):
        known = ", ".join([*LogLevel, *_PYTHON_LEVELS])
        raise ValueError(f"unknown log level {level!r}, use one of {known}")
    return LogLevel(name)
