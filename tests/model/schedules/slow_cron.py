"""What a cron expression means, said a second time and slowly: one minute after the other.

It knows nothing of cronsim or of our arithmetic: only what clocks in a time zone show.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Final
from zoneinfo import ZoneInfo

ZONES: Final = (
    "America/New_York",
    "Europe/Berlin",
    "Asia/Kolkata",
    "Australia/Lord_Howe",
    "UTC",
)
FIRST_YEAR: Final = 2024
YEARS: Final = 10
_MINUTE: Final = timedelta(minutes=1)


@dataclass(frozen=True)
class Field:
    """A field of an expression, and the numbers it stands for."""

    text: str
    numbers: frozenset[int] = field(repr=False)

    @property
    def is_star(self) -> bool:
        return self.text.startswith("*")


@dataclass(frozen=True)
class SlowCron:
    minute: Field
    hour: Field
    day: Field
    month: Field
    weekday: Field

    def __str__(self) -> str:
        parts = (self.minute, self.hour, self.day, self.month, self.weekday)
        return " ".join(part.text for part in parts)

    @property
    def is_appointment(self) -> bool:
        return not self.minute.is_star and not self.hour.is_star

    def matches(self, wall: datetime) -> bool:
        by_day = wall.day in self.day.numbers
        by_weekday = wall.isoweekday() % 7 in self.weekday.numbers
        # Two days that are both given are alternatives, as in every cron.
        either = not self.day.is_star and not self.weekday.is_star
        return (
            wall.minute in self.minute.numbers
            and wall.hour in self.hour.numbers
            and wall.month in self.month.numbers
            and ((by_day or by_weekday) if either else (by_day and by_weekday))
        )

    def ticks(self, zone: ZoneInfo, after: datetime, until: datetime) -> list[datetime]:
        """The ticks in (after, until], which are whole minutes."""
        found = self._appointments if self.is_appointment else self._matches
        return [tick for tick in found(zone, after, until) if tick > after]

    def _matches(self, zone: ZoneInfo, after: datetime, until: datetime) -> Iterator[datetime]:
        """Every minute at which clocks show a matching time."""
        for moment in minutes(after, until):
            if self.matches(wall_of(zone, moment)):
                yield moment

    def _appointments(self, zone: ZoneInfo, after: datetime, until: datetime) -> Iterator[datetime]:
        """Keeps the latest time that clocks have shown: what they skip is due, a repetition not."""
        shown = wall_of(zone, after - timedelta(days=1))
        for moment in minutes(after - timedelta(days=1), until):
            wall, due = wall_of(zone, moment), False
            while shown < wall:
                shown += _MINUTE
                due |= self.matches(shown)
            if due:
                yield moment


def minutes(after: datetime, until: datetime) -> Iterator[datetime]:
    moment = after + _MINUTE
    while moment <= until:
        yield moment
        moment += _MINUTE


def wall_of(zone: ZoneInfo, moment: datetime) -> datetime:
    return moment.astimezone(zone).replace(tzinfo=None)


def changes_of(zone: str) -> list[datetime]:
    """The hours at which clocks change, in ten years."""
    begin, hour, info = datetime(FIRST_YEAR, 1, 1, tzinfo=UTC), timedelta(hours=1), ZoneInfo(zone)
    offset, found = begin.astimezone(info).utcoffset(), []
    for n in range(YEARS * 366 * 24):
        moment = begin + n * hour
        if moment.astimezone(info).utcoffset() != offset:
            offset = moment.astimezone(info).utcoffset()
            found.append(moment)
    return found
