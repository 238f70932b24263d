"""Converts the arguments `delay` and `run_at` of the API to a point in time."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

from trellis_jobs.errors import RunAtInvalid

Delay = float | timedelta

# Python knows no time after the year 9999, and a deadline may be added to this one.
_MAX_RUN_AT: Final = datetime(9000, 1, 1, tzinfo=UTC)


def absolute_run_at(delay: Delay | None, run_at: datetime | None, now: datetime) -> datetime | None:
    """Raises RunAtInvalid. A time in the past means that the job is to run at once."""
    if delay is not None and run_at is not None:
        raise RunAtInvalid(run_at, "pass either delay or run_at, not both")
    if delay is not None:
        return _limited(delay, _after(delay, now))
    if run_at is None:
        return None
    if not isinstance(run_at, datetime):
        raise RunAtInvalid(run_at, "pass a datetime with a time zone")
    if run_at.tzinfo is None:
        raise RunAtInvalid(run_at, "it needs a time zone: datetime.now(UTC) + …")
    try:
        return _limited(run_at, run_at.astimezone(UTC))
    except OverflowError as error:
        raise RunAtInvalid(run_at, str(error)) from None


def _limited(given: object, run_at: datetime) -> datetime:
    if run_at >= _MAX_RUN_AT:
        raise RunAtInvalid(given, "it must be before the year 9000")
    return run_at


def _after(delay: object, now: datetime) -> datetime:
    try:
        if isinstance(delay, timedelta):
            duration = delay
        elif isinstance(delay, int | float) and not isinstance(delay, bool):
            duration = timedelta(seconds=delay)
        else:
            raise RunAtInvalid(delay, "pass seconds or a timedelta")
        if duration < timedelta():
            raise RunAtInvalid(delay, "a delay cannot be negative")
        return (now + duration).astimezone(UTC)
    except RunAtInvalid:
        raise
    except (ValueError, OverflowError) as error:
        raise RunAtInvalid(delay, str(error)) from None
