"""Exceptions that a handler raises to choose how its attempt ends."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

# A longer delay could overflow a date, and means that the handler mistook the unit.
MAX_RETRY_DELAY: Final = timedelta(days=366)


class Retry(Exception):
    """Raised by a handler to end this attempt and retry the job, optionally after a given delay."""

    def __init__(self, message: str = "", *, after: float | timedelta | None = None) -> None:
        super().__init__(message or "the handler requested a retry")
        self.after = None if after is None else _delay(after)


def _delay(after: float | timedelta) -> timedelta:
    """A timedelta, or seconds as a number or text (such as `Retry-After`), limited to a year."""
    try:
        seconds = after.total_seconds() if isinstance(after, timedelta) else float(after)
        if seconds != seconds:  # noqa: PLR0124 - not a number
            raise ValueError
    except (TypeError, ValueError):
        raise TypeError(f"Retry(after=…) takes seconds or a timedelta, found {after!r}") from None
    return timedelta(seconds=max(0.0, min(seconds, MAX_RETRY_DELAY.total_seconds())))


class Fail(Exception):
    """Raised by a handler to end the job as failed, even if tries are left."""

    def __init__(self, message: str = "") -> None:
        super().__init__(message or "the handler failed the job")
