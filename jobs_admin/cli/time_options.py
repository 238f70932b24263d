"""Options of the command line that are a duration or a time: 90s, 10m, 2h, 3d, 14:03:07."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Annotated

import typer

from jobs_admin.api.time_text import moment_after, moment_before
from trellis_jobs.model.durations import parse_duration

At = Annotated[
    str | None,
    typer.Option(
        "--at", help="As it was at this time: 10m, 2h, 3d ago, 14:03, or RFC 3339.", metavar="TIME"
    ),
]


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
    return _read(option, moment_after, text, now)


def moment_ago(option: str, text: str, now: datetime) -> datetime:
    """`10m` is ten minutes before now."""
    return _read(option, moment_before, text, now)


def past_moment(text: str) -> datetime:
    """The time of `--at`."""
    return moment_ago("--at", text, datetime.now(UTC))


def _read(
    option: str, read: Callable[[str, datetime], datetime], text: str, now: datetime
) -> datetime:
    try:
        return read(text, now)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint=option) from None
