"""How long jobs are kept after they end: by state, and at least an hour."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from jobs_admin.api.errors import ConfigError
from trellis_jobs.model.durations import compact_duration, parse_duration
from trellis_jobs.model.states import OVER, JobState

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

# Callers that wait for a job, or look it up after a failure, must still find it.
MIN_AGE: Final = timedelta(hours=1)
MAX_AGE: Final = timedelta(days=36_500)
KEEP_ALL: Final = "keep-all"
_OTHERS: Final = "others"
_JUNK: Final = "junk"
_DEFAULT: Final = timedelta(days=7)
_DEFAULTS: Final[Mapping[JobState, timedelta]] = {
    JobState.FAILED: timedelta(days=30),
    JobState.DEAD: timedelta(days=90),
}


@dataclass(frozen=True, slots=True)
class RetentionPolicy:
    """`ages` has every end state; None keeps its jobs forever.

    `junk` is how long messages are kept that are in the log but are not events. `str(policy)` can
    be parsed again.
    """

    ages: Mapping[JobState, timedelta | None]
    junk: timedelta | None = _DEFAULT

    def is_due(self, state: JobState, ended_at: datetime, now: datetime) -> bool:
        age = self.ages.get(state)
        return age is not None and now - ended_at >= age

    def limits(self, now: datetime) -> list[tuple[JobState, datetime]]:
        """For each state, the end time before which its jobs are removed."""
        return [(state, now - age) for state, age in self.ages.items() if age is not None]

    def __str__(self) -> str:
        kept = [state for state, age in self.ages.items() if age is None]
        if len(kept) == len(self.ages) and self.junk is None:
            return KEEP_ALL
        [(usual, states)] = Counter(self.ages.values()).most_common(1)
        named = [
            f"{state}={_shown(age)}"
            for state, age in sorted(self.ages.items())
            if states == 1 or age != usual
        ]
        named += [] if states == 1 else [f"{_OTHERS}={_shown(usual)}"]
        named += [] if self.junk == _DEFAULT else [f"{_JUNK}={_shown(self.junk)}"]
        return ",".join(named)


def standard() -> RetentionPolicy:
    return RetentionPolicy({state: _DEFAULTS.get(state, _DEFAULT) for state in sorted(OVER)})


def parse(text: str) -> RetentionPolicy:
    """Parse `keep-all`, or a list such as `completed=7d,failed=30d,others=12h,junk=1d`.

    States that are not named keep their default; `others` sets all other states.
    """
    if text.strip() == KEEP_ALL:
        return RetentionPolicy(dict.fromkeys(sorted(OVER)), junk=None)
    ages: dict[JobState, timedelta | None] = dict(standard().ages)
    named: dict[str, timedelta | None] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, _, value = (each.strip() for each in part.partition("="))
        if name in named:
            raise ConfigError(f"retention {part!r}: {name!r} is set twice")
        named[name if name in (_OTHERS, _JUNK) else _state(part, name)] = _age(part, value)
    junk = named.pop(_JUNK, _DEFAULT)
    if _OTHERS in named:
        ages = dict.fromkeys(ages, named.pop(_OTHERS))
    return RetentionPolicy(ages | {JobState(name): age for name, age in named.items()}, junk)


def _state(part: str, name: str) -> JobState:
    if name not in OVER:
        known = ", ".join([*sorted(OVER), _OTHERS, _JUNK])
        raise ConfigError(f"retention {part!r}: {name!r} is not an end state; choose from {known}")
    return JobState(name)


def _age(part: str, value: str) -> timedelta | None:
    if value == "keep":
        return None
    try:
        age = parse_duration(value)
    except OverflowError:
        age = timedelta.max
    if age is None:
        raise ConfigError(
            f"retention {part!r}: use a number followed by s, m, h, d or w, or 'keep'"
        )
    if age > MAX_AGE:
        raise ConfigError(f"retention {part[:40]!r}: for more than a hundred years use 'keep'")
    if age < MIN_AGE:
        raise ConfigError(f"retention {part!r}: the minimum is one hour after a job's end")
    return age


def _shown(age: timedelta | None) -> str:
    return "keep" if age is None else compact_duration(age)
