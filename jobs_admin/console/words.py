"""Times, ages and names as the pages show them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

from markupsafe import Markup

from trellis_jobs.model.durations import format_duration

_SHORT_ID: Final = 10
_UNITS: Final = ("B", "kB", "MB", "GB", "TB")
_KILO: Final = 1000
_WHOLE_FROM: Final = 10


def age(moment: datetime | None, now: datetime) -> str:
    """How long ago, or how long until: `4 min ago`, `in 2 h`; a dash for no time."""
    if moment is None:
        return "–"
    if moment > now:
        return f"in {format_duration(moment - now)}"
    return f"{format_duration(now - moment)} ago"


def local_time(moment: datetime | None, now: datetime | None = None) -> Markup:
    """A time that the page shows in the time zone that its user has chosen, with both as a hint.

    With `now` it is shown as an age.
    """
    if moment is None:
        return Markup("–")
    utc = moment.astimezone(UTC)
    text = f"{utc:%Y-%m-%d %H:%M:%S}Z" if now is None else age(moment, now)
    kind = "moment" if now is None else "age"
    return Markup('<time datetime="{}" data-show="{}">{}</time>').format(
        utc.isoformat(timespec="milliseconds"), kind, text
    )


def plural(count: int, noun: str) -> str:
    """`1 job`, `1,204 jobs`."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def short_id(job_id: str) -> str:
    """The end of an id tells jobs apart: ULIDs of one time begin alike."""
    return job_id if len(job_id) <= _SHORT_ID + 2 else f"{job_id[:4]}…{job_id[-_SHORT_ID + 4 :]}"


def milliseconds(length: float | None) -> str:
    """`1.2 s`; a dash for no time."""
    return "–" if length is None else format_duration(timedelta(milliseconds=length))


def number(count: float | None) -> str:
    """`1,204`, or `3.2` for a small one with decimals; a dash for none."""
    if count is None:
        return "–"
    return f"{count:,.0f}" if count >= _WHOLE_FROM or count == int(count) else f"{count:.1f}"


def share(part: float | None) -> str:
    """`92 %`; a dash for none."""
    return "–" if part is None else f"{part * 100:.0f} %"


def size(count: int) -> str:
    """`1.2 MB`."""
    amount, unit = float(count), 0
    while amount >= _KILO and unit < len(_UNITS) - 1:
        amount, unit = amount / _KILO, unit + 1
    return f"{number(round(amount, 1))} {_UNITS[unit]}"
