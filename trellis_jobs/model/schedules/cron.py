"""Cron expressions: 5 fields, or 6 with seconds first, or an alias such as `@daily`.

cronsim reads the fields and finds the matching wall times, without any time zone. What becomes of
wall times that clocks skip or repeat is decided in `cron_ticks.py`.
"""

from __future__ import annotations

from datetime import datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from trellis_jobs.errors import DeclarationError

if TYPE_CHECKING:
    from collections.abc import Iterator

ALIASES: Final = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}
MAX_EXPRESSION_LENGTH: Final = 200
_FIELDS: Final = {
    "second": "0-59",
    "minute": "0-59",
    "hour": "0-23",
    "day-of-month": "1-31, L or LW, a day that the month has",
    "month": "1-12 or JAN-DEC",
    "day-of-week": "0-7 or SUN-SAT, with #1 to #5 or L for one week of the month",
}
_NAMES: Final = tuple(_FIELDS)
_WITHOUT_SECONDS: Final = len(_FIELDS) - 1
# Where the search begins for an expression that never matches; cronsim gives up after 50 years.
_SEARCH_BEGIN: Final = datetime(2000, 1, 1)  # noqa: DTZ001 - a wall time


@lru_cache(maxsize=4096)
def check_expression(expression: str) -> None:
    """Raises DeclarationError, which names the invalid field."""
    from cronsim import CronSimError  # noqa: PLC0415

    if len(expression) > MAX_EXPRESSION_LENGTH:
        raise DeclarationError(
            f"a cron expression can have at most {MAX_EXPRESSION_LENGTH} characters"
        )
    if expression.startswith("@") and expression not in ALIASES:
        known = ", ".join(ALIASES)
        raise DeclarationError(f"cron {expression!r} is not known; the aliases are {known}")
    try:
        first = next(walls(expression, _SEARCH_BEGIN), None)
    except CronSimError as error:
        raise DeclarationError(f"cron {expression!r}: {_problem(expression, error)}") from None
    if first is None:
        raise DeclarationError(f"cron {expression!r} never matches any time")


def _problem(expression: str, error: Exception) -> str:
    fields = expression.split()
    if not _WITHOUT_SECONDS <= len(fields) <= len(_NAMES):
        return (
            f"it has {len(fields)} fields; use 5 (minute, hour, day-of-month, month, day-of-week), "
            "or 6 with the second first"
        )
    name = str(error).removeprefix("Bad ")
    if name not in _FIELDS:
        return str(error)
    found = fields[_NAMES.index(name) - (len(_NAMES) - len(fields))]
    return f"the {name} field {found!r} is not valid: use {_FIELDS[name]}"


def walls(expression: str, wall: datetime, *, backwards: bool = False) -> Iterator[datetime]:
    """The matching wall times after `wall`, or backwards those before it."""
    # Imported here, because processes without schedules do not need it.
    from cronsim import CronSim  # noqa: PLC0415

    return CronSim(ALIASES.get(expression, expression), wall, backwards)


@lru_cache(maxsize=4096)
def explain(expression: str) -> str:
    """The expression in words: `At 09:00 every day`."""
    from cronsim import CronSim  # noqa: PLC0415

    return CronSim(ALIASES.get(expression, expression), _SEARCH_BEGIN).explain()


@lru_cache(maxsize=4096)
def is_fixed(expression: str) -> bool:
    """Whether the expression names its hours and minutes, instead of matching any (`*`, `*/5`).

    The times of such an expression are appointments, such as "each night at 2:30".
    """
    *_, minute, hour, _day, _month, _weekday = ALIASES.get(expression, expression).split()
    return not minute.startswith("*") and not hour.startswith("*")
