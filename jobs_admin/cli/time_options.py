"""Options of the command line that are a duration or a time: 90s, 10m, 2h, 3d, 14:03:07."""

from __future__ import annotations

import re
from datetime import UTC, datetime, time, timedelta
from typing import Annotated, Final

import typer

from trellis_jobs.model.durations import parse_duration

At = Annotated[
    str | None,
    typer.Option(
        "--at", help="As it was at this time: 10m, 2h, 3d ago, 14:03, or RFC 3339.", metavar="TIME"
    ),
]
_CLOCK: Final = re.compile(r"\d\d:\d\d(:\d\d(\.\d+)?)?")


def duration(option: str, text: str) -> timedelta:
    try:
        read = parse_duration(text)
    except OverflowError:
        read = None
    if not read:
        raise typer.BadParameter(
            f"{text!r} is not a duration such as 90s, 10m, 2h", param_hint=option
        )
    return read


def seconds(option: str, text: str | None) -> float | None:
    """A number without a unit means seconds."""
    if text is None:
        return None
    return duration(option, f"{text}s" if text[-1:].isdigit() else text).total_seconds()


def moment_ahead(option: str, text: str, now: datetime) -> datetime:
    """`10m` is in ten minutes."""
    return _moment(option, text, now, 1)


def moment_ago(option: str, text: str, now: datetime) -> datetime:
    """`10m` is ten minutes before now."""
    return _moment(option, text, now, -1)


def past_moment(text: str) -> datetime:
    """The time of `--at`."""
    return moment_ago("--at", text, datetime.now(UTC))


def _moment(option: str, text: str, now: datetime, direction: int) -> datetime:
    try:
        read = parse_duration(text)
        if read is not None:
            return now + direction * read
        if _CLOCK.fullmatch(text):
            return _clock_time(text, now, direction)
        parsed = datetime.fromisoformat(text)
        return parsed if parsed.tzinfo else parsed.astimezone()
    except (ValueError, OverflowError):
        raise typer.BadParameter(
            f"{text!r} is neither a duration (10m, 2h, 3d) nor a time"
            " (14:03:07, 2026-05-01T12:00:00Z)",
            param_hint=option,
        ) from None


def _clock_time(text: str, now: datetime, direction: int) -> datetime:
    """Return the previous or the next such time in the local zone, as event lists show it."""
    # No zone until the day is known: another day can have another UTC offset.
    today = datetime.combine(now.astimezone(), time.fromisoformat(text))
    is_in_direction = direction * (today.astimezone() - now) >= timedelta()
    return (today if is_in_direction else today + direction * timedelta(days=1)).astimezone()
