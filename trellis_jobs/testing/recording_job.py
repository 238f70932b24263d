"""A running job with somebody who writes down every word of its handler."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

from trellis_jobs.model.notes import LogLevel, Progress
from trellis_jobs.worker.active_job import ActiveJob, AttemptBackend, KeyLease, Noted

if TYPE_CHECKING:
    from collections.abc import Callable

P = TypeVar("P")


@dataclass(slots=True)
class RecordedCalls:
    """What a handler said about its job, call by call; in the log it is merged, ten a second."""

    progress: list[Progress] = field(default_factory=list)
    logs: list[tuple[LogLevel, str]] = field(default_factory=list)
    heartbeats: int = 0


class RecordingJob(ActiveJob[P]):
    """Passes everything on to the job it stands for; `heard` answers each word."""

    __slots__ = ("_heard",)

    def __init__(
        self, active: ActiveJob[P], said: RecordedCalls, heard: Callable[[], Noted]
    ) -> None:
        super().__init__(_RecordingBackend(active._backend, said), active.payload, active._facts)
        self._heard = heard

    def progress(
        self,
        *,
        current: int | None = None,
        total: int | None = None,
        step: str | None = None,
        message: str | None = None,
    ) -> Noted:
        super().progress(current=current, total=total, step=step, message=message)
        return self._heard()

    def log(self, message: str, level: str | LogLevel = LogLevel.INFO) -> Noted:
        super().log(message, level)
        return self._heard()

    def heartbeat(self) -> Noted:
        super().heartbeat()
        return self._heard()


class _RecordingBackend:
    def __init__(self, backend: AttemptBackend, said: RecordedCalls) -> None:
        self._backend = backend
        self._said = said

    @property
    def has_ended(self) -> bool:
        return self._backend.has_ended

    @property
    def key_lease(self) -> KeyLease | None:
        return self._backend.key_lease

    def scrub(self, text: str) -> str:
        return self._backend.scrub(text)

    def note_progress(self, progress: Progress) -> None:
        self._said.progress.append(progress)
        self._backend.note_progress(progress)

    def note_log(self, level: LogLevel, message: str) -> None:
        self._said.logs.append((level, message))
        self._backend.note_log(level, message)

    def renew_now(self) -> None:
        self._said.heartbeats += 1
        self._backend.renew_now()
