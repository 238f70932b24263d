"""Parses the header Retry-After: a number of seconds or a date."""

from __future__ import annotations

from datetime import datetime
from email.utils import parsedate_to_datetime


def seconds_to_wait(header: str | None, now: datetime) -> float | None:
    """Returns None if the header is missing or invalid."""
    if header is None:
        return None
    if header.strip().isdecimal():
        return float(header)
    try:
        then = parsedate_to_datetime(header)
    except ValueError:
        return None
    return max(0.0, (then - now).total_seconds()) if then.tzinfo is not None else None
