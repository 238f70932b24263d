"""Records the calls that a handler makes on its job."""

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
    """The calls of a handler, one by one. A real worker merges them, ten times a second."""

    progress: list[Progress] = field(default_factory=list)
    logs: list[tuple[LogLevel, str]] = field(default_factory=list)
    heartbeats: int = 0


class RecordingJob(ActiveJob[P]):
    """Passes every call on to `active`, and returns what `on_call` returns."""

    __slots__ = ("_on_call",)

    def __init__(
        self, active: ActiveJob[P], recorded: RecordedCalls, on_call: Callable[[], Noted]
    ) -> None:
        super().__init__(
            _RecordingBackend(active._backend, recorded), active.payload, active._facts
        )
        self._on_call = on_call

    def progress(
        self,
        *,
        current: int | None = None,
        total: int | None = None,
        step: str | None = None,
        message: str | None = None,
    ) -> Noted:
        super().progress(current=current, total=total, step=step, message=message)
        return self._on_call()

    def log(self, message: str, level: str | LogLevel = LogLevel.INFO) -> Noted:
        super().log(message, level)
        return self._on_call()

    def heartbeat(self) -> Noted:
        super().heartbeat()
        return self._on_call()


class _RecordingBackend:
    def __init__(self, backend: AttemptBackend, recorded: RecordedCalls) -> None:
        self._backend = backend
        self._recorded = recorded

    @property
    def has_ended(self) -> bool:
        return self._backend.has_ended

    @property
    def key_lease(self) -> KeyLease | None:
        return self._backend.key_lease

    def scrub(self, text: str) -> str:
        return self._backend.scrub(text)

    def note_progress(self, progress: Progress) -> None:
        self._recorded.progress.append(progress)
        self._backend.note_progress(progress)

    def note_log(self, level: LogLevel, message: str) -> None:
        self._recorded.logs.append((level, message))
        self._backend.note_log(level, message)

    def renew_now(self) -> None:
        self._recorded.heartbeats += 1
        self._backend.renew_now()
