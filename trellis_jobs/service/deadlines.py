"""Converts a deadline argument of the API to a point in time."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from trellis_jobs.errors import DeadlineInvalid

Deadline = float | timedelta | datetime


def absolute_deadline(given: Deadline, now: datetime) -> datetime:
    """Raises DeadlineInvalid.

    A duration must be positive. A point in time may be in the past: the job is created, and expires
    without running.
    """
    try:
        if isinstance(given, datetime):
            if given.tzinfo is None:
                raise DeadlineInvalid(given, "it needs a time zone: datetime.now(UTC) + …")
            return given.astimezone(UTC)
        return (now + _duration(given)).astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise (
            error if isinstance(error, DeadlineInvalid) else DeadlineInvalid(given, str(error))
        ) from None


def _duration(given: object) -> timedelta:
    if isinstance(given, timedelta):
        duration = given
    elif isinstance(given, int | float) and not isinstance(given, bool):
        duration = timedelta(seconds=given)
    else:
        raise DeadlineInvalid(given, "pass seconds, a timedelta, or a datetime with a time zone")
    if duration <= timedelta():
        raise DeadlineInvalid(given, "it must be more than 0 seconds from now")
    return duration
