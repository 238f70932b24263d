"""Exceptions that a handler raises to choose how its attempt ends."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

# A longer delay could overflow a date, and means that the handler mistook the unit.
MAX_RETRY_DELAY: Final = timedelta(days=366)


class Retry(Exception):
    """Raised by a handler to end this attempt and retry the job, optionally after a given delay."""

    def __init__(self, message: str = "", *, after: float | timedelta | None = None) -> None:
        super().__init__(message or "the handler requested a retry")
        self.after = None if after is None else _delay(after, "Retry(after=…)")


class Snooze(Exception):
    """Raised by a handler to run the job again later, without a failure and without using a try.

    Takes a delay (`for_`) or an aware datetime (`until`), and optionally the reason, which
    operators see. How often a job may be snoozed is limited by the queue's `max_snoozes`.
    """

    def __init__(
        self,
        reason: str = "",
        *,
        for_: float | timedelta | None = None,
        until: datetime | None = None,
    ) -> None:
        super().__init__(reason or "the handler snoozed the job")
        if (for_ is None) == (until is None):
            raise TypeError("Snooze takes either for_=… or until=…")
        self.for_ = None if for_ is None else _delay(for_, "Snooze(for_=…)")
        self.until = None if until is None else _aware(until)

    def ends_at(self, now: datetime) -> datetime:
        return now + (self.for_ or timedelta()) if self.until is None else self.until


def _delay(after: float | timedelta, argument: str) -> timedelta:
    """A timedelta, or seconds as a number or text (such as `Retry-After`), limited to a year."""
    try:
        seconds = after.total_seconds() if isinstance(after, timedelta) else float(after)
        if seconds != seconds:  # noqa: PLR0124 - not a number
            raise ValueError
    except (TypeError, ValueError):
        raise TypeError(f"{argument} takes seconds or a timedelta, found {after!r}") from None
    return timedelta(seconds=max(0.0, min(seconds, MAX_RETRY_DELAY.total_seconds())))


def _aware(until: object) -> datetime:
    if not isinstance(until, datetime) or until.utcoffset() is None:
        raise TypeError(
            "Snooze(until=…) takes a datetime with a time zone, such as "
            f"datetime.now(UTC) + timedelta(hours=1), found {until!r}"
        )
    return until


class Fail(Exception):
    """Raised by a handler to end the job as failed, even if tries are left."""

    def __init__(self, message: str = "") -> None:
        super().__init__(message or "the handler failed the job")
