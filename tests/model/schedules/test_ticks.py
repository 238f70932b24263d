"""Ticks of intervals and cron expressions, their job ids, and the delays of jitter."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ulid import ULID

from tests.model.schedules.given import DAY, HOUR, MINUTE, NIGHTLY, cron, every, utc
from trellis_jobs.errors import InvalidToken
from trellis_jobs.model.identity import PRESENCE_NAME
from trellis_jobs.model.schedules.address import EPOCH, ScheduleAddress, tick_job_id
from trellis_jobs.model.schedules.definition import ScheduleDefinition
from trellis_jobs.model.schedules.firing import fire_time
from trellis_jobs.model.schedules.ticks import (
    count_ticks,
    latest_tick,
    newest_ticks,
    next_tick,
    ticks_between,
)

NOON = utc("2026-03-28T12:00")
MICROSECOND = timedelta(microseconds=1)


def test_an_interval_counts_from_the_epoch() -> None:
    """So all processes agree without talking to each other."""
    assert next_tick(every(300), NOON) == NOON + timedelta(seconds=300)
    assert next_tick(every(7), NOON) == EPOCH + 7 * timedelta(
        seconds=(NOON - EPOCH) // timedelta(seconds=7) + 1
    )


def test_an_interval_with_a_start_counts_from_it() -> None:
    start = NOON + timedelta(seconds=17)
    definition = every(300, start=start)
    assert ticks_between(definition, NOON - DAY, start + 700 * timedelta(seconds=1), 9) == [
        start,
        start + timedelta(seconds=300),
        start + timedelta(seconds=600),
    ]


@given(
    st.integers(1000, 10_000_000),
    st.integers(0, 10**10),
    st.integers(0, 10**10),
    st.none() | st.integers(0, 10**10),
    st.none() | st.integers(0, 10**10),
)
def test_ticks_of_an_interval_are_those_of_a_loop(
    milliseconds: int, after: int, span: int, start: int | None, length: int | None
) -> None:
    one = timedelta(milliseconds=1)
    begin = EPOCH + after * one
    until = begin + (span % (milliseconds * 20)) * one
    since = None if start is None else EPOCH + start * one
    end = None if length is None else (since or EPOCH) + length * one
    definition = every(milliseconds * one, start=since, end=end)
    expected = [
        tick
        for n in range(-1, 25)
        if begin
        < (
            tick := (since or EPOCH)
            + (max(0, (begin - (since or EPOCH)) // (milliseconds * one)) + n) * milliseconds * one
        )
        <= until
        and tick >= (since or EPOCH)
        and (end is None or tick <= end)
    ]
    assert ticks_between(definition, begin, until, 100) == expected
    assert newest_ticks(definition, begin, until, 100) == expected
    assert newest_ticks(definition, begin, until, 2) == expected[-2:]
    assert count_ticks(definition, begin, until, 100) == len(expected)
    assert latest_tick(definition, begin, until) == (expected[-1] if expected else None)


@pytest.mark.parametrize("definition", [every(1), cron("* * * * * *", "Europe/Berlin")])
def test_an_outage_of_decades_is_no_walk_of_a_billion_seconds(
    definition: ScheduleDefinition,
) -> None:
    begin, end = utc("1990-01-01"), utc("2026-01-01")
    assert latest_tick(definition, begin, end) == end
    assert len(newest_ticks(definition, begin, end, 100)) == 100
    assert count_ticks(definition, begin, end, 1000) == 1000
    assert next_tick(definition, begin) == begin + timedelta(seconds=1)


def test_the_period_includes_its_start_and_its_end() -> None:
    start, end = utc("2026-03-28T09:00"), utc("2026-03-30T09:00")
    definition = cron("0 9 * * *", start=start, end=end)
    assert ticks_between(definition, NOON - 30 * DAY, NOON + 30 * DAY, 9) == [
        start,
        start + DAY,
        end,
    ]
    assert next_tick(definition, end) is None
    assert latest_tick(definition, EPOCH, start - MICROSECOND) is None


def test_a_leap_day_comes_every_four_years() -> None:
    leap = cron("0 0 29 2 *")
    assert ticks_between(leap, utc("2023-01-01"), utc("2040-01-01"), 9) == [
        utc("2024-02-29"),
        utc("2028-02-29"),
        utc("2032-02-29"),
        utc("2036-02-29"),
    ]
    assert next_tick(leap, utc("2096-03-01")) == utc("2104-02-29")
    assert latest_tick(leap, EPOCH, utc("2104-02-28")) == utc("2096-02-29")


def test_a_month_without_the_day_has_no_tick() -> None:
    assert ticks_between(cron("0 0 31 * *"), utc("2026-01-01"), utc("2026-07-01"), 9) == [
        utc("2026-01-31"),
        utc("2026-03-31"),
        utc("2026-05-31"),
    ]
    assert next_tick(cron("0 0 L * *"), utc("2026-02-01")) == utc("2026-02-28")


@pytest.mark.parametrize(
    ("alias", "expected"),
    [
        ("@hourly", "2026-03-28T13:00"),
        ("@daily", "2026-03-29"),
        ("@midnight", "2026-03-29"),
        ("@weekly", "2026-03-29"),
        ("@monthly", "2026-04-01"),
        ("@yearly", "2027-01-01"),
        ("@annually", "2027-01-01"),
    ],
)
def test_an_alias_is_the_expression_that_people_know(alias: str, expected: str) -> None:
    assert next_tick(cron(alias), NOON) == utc(expected)


def test_a_sixth_field_in_front_has_seconds() -> None:
    definition = cron("*/20 59 12 * * *", "Asia/Kolkata")
    first = utc("2026-03-29T07:29")
    assert ticks_between(definition, NOON, NOON + DAY, 9) == [
        first,
        first + timedelta(seconds=20),
        first + timedelta(seconds=40),
    ]


def test_ticks_are_in_utc_whatever_the_time_zone() -> None:
    tick = next_tick(cron("0 9 * * *", "America/New_York"), NOON)
    assert tick == utc("2026-03-28T13:00")
    assert tick is not None
    assert tick.tzinfo is UTC


@pytest.mark.parametrize("definition", [cron("0 9 * * *", "Asia/Kolkata"), every(300)])
def test_the_end_of_time_has_no_ticks_and_no_errors(definition: ScheduleDefinition) -> None:
    far, past = datetime.max.replace(tzinfo=UTC), datetime.min.replace(tzinfo=UTC)
    assert next_tick(definition, far) is None
    assert latest_tick(definition, far, far) is None
    assert next_tick(definition, past) is not None
    assert latest_tick(definition, past, past) is None
    assert latest_tick(definition, past, far) is not None
    assert ticks_between(definition, far, past, 9) == []


@given(st.integers(0, 2**40), st.integers(0, 2**40))
def test_every_tick_has_one_job_id_that_sorts_by_time(first: int, second: int) -> None:
    early, late = (EPOCH + timedelta(milliseconds=each) for each in sorted((first, second)))
    ids = [tick_job_id(NIGHTLY, tick) for tick in (early, late)]
    assert ids == sorted(ids)
    assert (ids[0] == ids[1]) == (early == late)
    assert ULID.from_str(ids[1]).bytes[:6] == max(first, second).to_bytes(6)


def test_a_job_id_is_the_same_in_every_version_of_this_library() -> None:
    """Two versions run beside each other during a deploy and must not create two jobs."""
    assert tick_job_id(NIGHTLY, NOON) == "01KMT51FG0KJGQTGMRN61VAPSN"


def test_schedules_never_share_a_job_id() -> None:
    names = [("a", "b", "c"), ("a-b", "c", "d"), ("a", "b-c", "d"), ("a", "b", "c-d")]
    ids = {tick_job_id(ScheduleAddress(*name), NOON) for name in names}
    assert len(ids) == len(names)


@pytest.mark.parametrize("name", [("", "b", "c"), ("a", "b.c", "d"), (PRESENCE_NAME, "b", "c")])
def test_an_address_is_made_of_tokens(name: tuple[str, str, str]) -> None:
    with pytest.raises(InvalidToken):
        ScheduleAddress(*name)


@given(st.integers(0, 10**6), st.integers(0, 24 * 3600))
def test_jitter_delays_a_tick_by_at_most_itself_and_always_alike(n: int, seconds: int) -> None:
    definition = cron("* * * * *", jitter=timedelta(seconds=seconds))
    tick = NOON + n * MINUTE
    fired = fire_time(definition, NIGHTLY, tick)
    assert tick <= fired <= tick + definition.jitter
    assert fired == fire_time(definition, NIGHTLY, tick)


def test_jitter_spreads_schedules_and_ticks() -> None:
    definition = cron("0 * * * *", jitter=HOUR)
    others = [ScheduleAddress("documents", "render-report", f"t{n}") for n in range(200)]
    delays = {fire_time(definition, address, NOON) - NOON for address in others}
    assert len(delays) == len(others)
    assert min(delays) < HOUR / 4
    assert max(delays) > 3 * HOUR / 4
    assert fire_time(definition, NIGHTLY, NOON) - NOON != fire_time(
        definition, NIGHTLY, NOON + HOUR
    ) - (NOON + HOUR)


def test_without_jitter_a_tick_is_not_delayed() -> None:
    assert fire_time(cron("0 * * * *"), NIGHTLY, NOON) == NOON
