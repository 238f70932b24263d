"""The tries of a job as its history recorded them, to be compared with a try elsewhere."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from trellis_jobs.model import events as e
from trellis_jobs.model.redaction import redacted

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import timedelta

    from trellis_jobs.model.json_values import Json
    from trellis_jobs.model.timeline import TimelineEntry


@dataclass(frozen=True, slots=True, kw_only=True)
class TryOutcome:
    """`event` is the event that ended the try, and None if nothing did.

    `error` is the type of the error and its message. `result` has no secrets.
    """

    event: str | None
    error: tuple[str, str] | None = None
    result: Json = None
    duration: timedelta | None = None

    @property
    def has_completed(self) -> bool:
        return self.event == e.EventKind.COMPLETED


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedTry:
    """`run` is the log sequence of the event with which its run began."""

    number: int
    run: int
    instance: str | None
    app_version: str | None
    outcome: TryOutcome


def recorded_try(history: Sequence[TimelineEntry], number: int) -> RecordedTry | None:
    """The newest try with this number. Returns None if the job never had one."""
    found = [each for each in _tries(history) if each.number == number]
    return found[-1] if found else None


def _tries(history: Sequence[TimelineEntry]) -> Iterator[RecordedTry]:
    counted = [each for each in history if each.ignored is None and each.event is not None]
    for index, step in enumerate(counted):
        if not isinstance(step.event, e.Started) or step.job is None:
            continue
        attempt = step.event.attempt
        yield RecordedTry(
            number=step.event.tries,
            run=step.job.status.run,
            instance=attempt.instance if attempt else None,
            app_version=step.event.app_version,
            outcome=_outcome(step, counted[index + 1 :]),
        )


def _outcome(started: TimelineEntry, after: Sequence[TimelineEntry]) -> TryOutcome:
    """The first event after the start that is not a note."""
    for step in after:
        event = step.event
        if event is None or isinstance(event, e.Progressed | e.Logged | e.Heartbeat):
            continue
        if isinstance(event, e.StaleCompletionIgnored):
            continue
        if isinstance(event, e.Started):
            break
        duration = step.at - started.at
        return _ended(event, duration)
    return TryOutcome(event=None)


def _ended(event: e.Event, duration: timedelta) -> TryOutcome:
    error: tuple[str, str] | None = None
    result: Json = None
    match event:
        case e.Completed():
            result = redacted(event.result, event.secrets)
        case e.RetryScheduled() | e.Failed() | e.Dead() | e.Stale():
            error = (event.error.type, event.error.message)
        case e.Decided():
            error = (event.kind.value, event.reason or "")
    return TryOutcome(event=event.kind.value, error=error, result=result, duration=duration)


def differences(recorded: TryOutcome, here: TryOutcome) -> list[str]:
    """What is different, in words. A retry and a death differ only in the tries that were left."""
    if recorded.event is None:
        return ["the recorded try has no end"]
    if recorded.has_completed != here.has_completed:
        then, now = _word(recorded), _word(here)
        return [f"the recorded try {then}, and this one {now}"]
    found = []
    if recorded.error is not None and here.error is not None:
        for name, then, now in zip(("type", "message"), recorded.error, here.error, strict=True):
            if then != now:
                found.append(f"the {name} of the error was {then!r} and is {now!r}")
    if recorded.has_completed and recorded.result != here.result:
        found.append("the result is another one")
    return found


def _word(outcome: TryOutcome) -> str:
    return "completed" if outcome.has_completed else "failed"
