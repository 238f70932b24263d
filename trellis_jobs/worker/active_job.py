"""What a handler sees of its job, and what it can say about it."""

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
    """Already done when it is returned: async handlers may await it, sync ones just go on."""

    __slots__ = ()

    def __await__(self) -> Generator[None, None, None]:
        return
        yield


_NOTED = Noted()
_LARGEST_COUNT: Final = 2**53 - 1
_LONGEST_TEXT: Final = 1_000
_PYTHONS_WORDS: Final[Mapping[str, str]] = {
    "debug": "info",
    "warning": "warn",
    "critical": "error",
}


class Desk(Protocol):
    """The worker's side of a running job; every call may come from a handler's own thread."""

    @property
    def has_ended(self) -> bool: ...

    def scrub(self, text: str) -> str:
        """A text as it may be stored: without the secrets of the job's payload."""

    def note_progress(self, progress: Progress) -> None: ...

    def note_log(self, level: LogLevel, message: str) -> None: ...

    def renew_now(self) -> None: ...

    @property
    def key_lease(self) -> KeyLease | None: ...


@dataclass(frozen=True, slots=True)
class KeyLease:
    """How long the job's slot of its key is safe, and whether that is still so."""

    renewed_at: datetime
    expires_at: datetime
    is_held: bool


class AttemptFacts(Value, frozen=True, kw_only=True):
    """What is known of an attempt before its handler runs."""

    id: str
    context: JobContext
    tries: int
    max_tries: int
    redelivered: int = 0
    deadline: datetime | None = None
    key: str | None = None


class ActiveJob(Generic[P]):
    """One attempt at a job, as its handler has it in hand."""

    __slots__ = ("_desk", "_facts", "payload")

    def __init__(self, desk: Desk, payload: P, facts: AttemptFacts) -> None:
        self._desk = desk
        self._facts = facts
        self.payload = payload

    @property
    def id(self) -> str:
        return self._facts.id

    @property
    def context(self) -> JobContext:
        """Request id and trace of the job, for logs and for work done on its behalf."""
        return self._facts.context

    @property
    def tries(self) -> int:
        """Which try this is, from 1."""
        return self._facts.tries

    @property
    def max_tries(self) -> int:
        return self._facts.max_tries

    @property
    def redelivered(self) -> int:
        """How often this work was delivered before, for whatever reason."""
        return self._facts.redelivered

    @property
    def deadline(self) -> datetime | None:
        return self._facts.deadline

    @property
    def key(self) -> str | None:
        """The key whose slot this attempt holds, as people read it; None on a queue without."""
        return self._facts.key

    @property
    def key_lease(self) -> KeyLease | None:
        """The slot's lease as it is now; it is renewed by itself. None on a queue without keys."""
        return self._desk.key_lease

    @property
    def cancelled(self) -> bool:
        """Stop as soon as you can: the job is over or another's, timed out, or the worker stops."""
        return self._desk.has_ended

    def progress(
        self,
        *,
        current: int | None = None,
        total: int | None = None,
        step: str | None = None,
        message: str | None = None,
    ) -> Noted:
        """Say how far the work is, in whole numbers. The newest of frequent calls counts."""
        self._desk.note_progress(
            Progress(
                step=self._text(step),
                message=self._text(message),
                current=_count(current),
                total=_count(total),
            )
        )
        return _NOTED

    def log(self, message: str, level: str | LogLevel = LogLevel.INFO) -> Noted:
        """Add a line to the job's own log; levels are info, warn, error, and Python's words."""
        self._desk.note_log(_level(level), self._desk.scrub(str(message)))
        return _NOTED

    def heartbeat(self) -> Noted:
        """Renew the leases at once; the runtime does so by itself, from a thread of its own."""
        self._desk.renew_now()
        return _NOTED

    def _text(self, value: object) -> str | None:
        """Whatever a handler passes: a note must never cost the job its outcome."""
        return None if value is None else bounded(self._desk.scrub(str(value)), _LONGEST_TEXT)

    def __repr__(self) -> str:
        return f"ActiveJob({self.id}, try {self.tries} of {self.max_tries})"


def _count(value: int | None) -> int | None:
    """What every reader of the log takes for a count: not negative, and exact in any language."""
    return None if value is None else max(0, min(round(value), _LARGEST_COUNT))


def _level(level: str) -> LogLevel:
    word = _PYTHONS_WORDS.get(level, level)
    if word not in set(LogLevel):
        known = ", ".join([*LogLevel, *_PYTHONS_WORDS])
        raise ValueError(f"{level!r} is no log level; there are {known}")
    return LogLevel(word)
