"""Ticks are the same as those of an independent definition that walks minute by minute."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from functools import cache
from itertools import pairwise
from typing import TypeAlias
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.model.schedules.given import DAY, HOUR, MINUTE, cron
from tests.model.schedules.slow_cron import FIRST_YEAR, YEARS, ZONES, Field, SlowCron, changes_of
from trellis_jobs.model.schedules.ticks import (
    count_ticks,
    latest_tick,
    newest_ticks,
    next_tick,
    ticks_between,
)

BEGIN = datetime(FIRST_YEAR, 1, 1, tzinfo=UTC)
END = BEGIN + YEARS * 365 * DAY
MANY = 100_000
Window: TypeAlias = tuple[str, datetime, datetime]

changes = cache(changes_of)


def star(low: int, high: int) -> Field:
    return Field("*", frozenset(range(low, high + 1)))


def stepped(low: int, high: int, step: int) -> Field:
    return Field(f"*/{step}", frozenset(range(low, high + 1, step)))


def listed(numbers: Sequence[int]) -> Field:
    return Field(",".join(map(str, numbers)), frozenset(numbers))


def ranged(low: int, high: int) -> Field:
    return Field(f"{low}-{high}", frozenset(range(low, high + 1)))


def named(low: int, high: int) -> st.SearchStrategy[Field]:
    numbers = st.integers(low, high)
    return st.one_of(
        st.lists(numbers, min_size=1, max_size=4, unique=True).map(listed),
        st.tuples(numbers, numbers).map(lambda pair: ranged(min(pair), max(pair))),
    )


def fields(low: int, high: int) -> st.SearchStrategy[Field]:
    return st.one_of(
        st.just(star(low, high)),
        st.integers(2, 20).map(lambda step: stepped(low, high, step)),
        named(low, high),
    )


@st.composite
def expressions(draw: st.DrawFn) -> SlowCron:
    """Mostly every day, because a window of days has few ticks of others."""
    daily = draw(st.sampled_from((True, True, False)))
    return SlowCron(
        minute=draw(fields(0, 59)),
        # Clocks change at night.
        hour=draw(st.one_of(fields(0, 23), named(0, 4))),
        day=star(1, 31)
        if daily
        else draw(fields(1, 31).filter(lambda field: min(field.numbers) <= 28)),
        month=star(1, 12) if daily else draw(fields(1, 12)),
        weekday=star(0, 6) if daily else draw(fields(0, 6)),
    )


@st.composite
def windows(draw: st.DrawFn) -> Window:
    zone = draw(st.sampled_from(ZONES))
    anywhere = st.integers(0, (END - BEGIN) // MINUTE).map(lambda n: BEGIN + n * MINUTE)
    near = st.sampled_from(changes(zone) or [BEGIN])
    offset = st.integers(-600, 200).map(lambda n: n * MINUTE)
    begin = draw(st.one_of(anywhere, st.builds(lambda at, by: at + by, near, offset)))
    return zone, begin, begin + draw(st.integers(1, 36)) * HOUR


def assert_same(slow: SlowCron, window: Window) -> None:
    zone, begin, end = window
    definition, expected = cron(str(slow), zone), slow.ticks(ZoneInfo(zone), begin, end)
    assert ticks_between(definition, begin, end, MANY) == expected
    assert newest_ticks(definition, begin, end, MANY) == expected
    assert newest_ticks(definition, begin, end, 3) == expected[-3:]
    assert latest_tick(definition, begin, end) == (expected[-1] if expected else None)
    assert count_ticks(definition, begin, end, MANY) == len(expected)


@settings(max_examples=200, deadline=None)
@given(expressions(), windows())
def test_ticks_are_those_of_the_slow_definition(slow: SlowCron, window: Window) -> None:
    assert_same(slow, window)


@settings(max_examples=100, deadline=None)
@given(expressions(), windows(), st.integers(0, 59_999_999))
def test_the_next_tick_does_not_depend_on_where_one_begins(
    slow: SlowCron, window: Window, microseconds: int
) -> None:
    """Also not within the minute, and not within an hour that clocks repeat."""
    zone, begin, end = window
    definition = cron(str(slow), zone)
    for tick, following in pairwise(slow.ticks(ZoneInfo(zone), begin, end)):
        between = min(tick + timedelta(microseconds=microseconds), following - MINUTE)
        assert next_tick(definition, tick) == following
        assert next_tick(definition, max(tick, between)) == following
        assert latest_tick(definition, begin, following - timedelta(microseconds=1)) == tick


AT_EACH_CHANGE = [
    SlowCron(listed([30]), listed([2]), star(1, 31), star(1, 12), star(0, 6)),
    SlowCron(listed([0, 45]), listed([1, 2, 3]), star(1, 31), star(1, 12), star(0, 6)),
    SlowCron(ranged(0, 59), listed([2]), star(1, 31), star(1, 12), star(0, 6)),
    SlowCron(listed([45]), star(0, 23), star(1, 31), star(1, 12), star(0, 6)),
    SlowCron(stepped(0, 59, 15), listed([1, 2]), star(1, 31), star(1, 12), star(0, 6)),
    SlowCron(listed([20]), stepped(0, 23, 2), star(1, 31), star(1, 12), star(0, 6)),
]


@pytest.mark.parametrize("slow", AT_EACH_CHANGE, ids=str)
@pytest.mark.parametrize("zone", [zone for zone in ZONES if changes_of(zone)])
def test_every_change_of_clocks_in_ten_years_is_right(slow: SlowCron, zone: str) -> None:
    for change in changes(zone):
        assert_same(slow, (zone, change - 5 * HOUR, change + 5 * HOUR))


@pytest.mark.parametrize("zone", ZONES)
@pytest.mark.parametrize("expression", ["30 2 * * *", "0 30 2 * * *", "15 1 * * *", "0 0 * * *"])
def test_an_appointment_has_one_tick_each_day_for_ten_years(expression: str, zone: str) -> None:
    ticks = ticks_between(cron(expression, zone), BEGIN, END, MANY)
    days = [tick.astimezone(ZoneInfo(zone)).date() for tick in ticks]
    assert all(later - day == DAY for day, later in pairwise(days))
    assert newest_ticks(cron(expression, zone), BEGIN, END, MANY) == ticks


@pytest.mark.parametrize("zone", ZONES)
def test_an_hourly_schedule_has_a_tick_in_every_hour_of_ten_years(zone: str) -> None:
    """Whole hours of UTC, except where a zone is half an hour off or clocks change by that."""
    ticks = ticks_between(cron("0 * * * *", zone), BEGIN, END, MANY)
    gaps = {later - tick for tick, later in pairwise(ticks)}
    assert gaps <= {HOUR, HOUR / 2, 3 * HOUR / 2}
    assert (gaps == {HOUR}) == (zone != "Australia/Lord_Howe")
