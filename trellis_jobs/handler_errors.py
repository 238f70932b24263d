"""What a handler raises to choose how its attempt ends."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

_LONGEST_DELAY: Final = 366 * 24 * 3600.0


class Retry(Exception):
    """Raised by a handler: end this attempt and try again, after a delay of its own choice."""

    def __init__(self, message: str = "", *, after: float | timedelta | None = None) -> None:
        super().__init__(message or "the handler asked for another try")
        self.after = None if after is None else _delay(after)


def _delay(after: float | timedelta) -> timedelta:
    """Seconds in whatever form a `Retry-After` comes, or a duration; at least 0, at most a year."""
    try:
        seconds = after.total_seconds() if isinstance(after, timedelta) else float(after)
        if seconds != seconds:  # noqa: PLR0124 - not a number
            raise ValueError
    except (TypeError, ValueError):
        raise TypeError(f"Retry(after=…) takes seconds or a timedelta, found {after!r}") from None
    return timedelta(seconds=max(0.0, min(seconds, _LONGEST_DELAY)))


class Fail(Exception):
    """Raised by a handler: end the job as failed, whatever tries are left."""

    def __init__(self, message: str = "") -> None:
        super().__init__(message or "the handler gave the job up")
