"""Days on which clocks change, written out by hand.

Berlin: 2026-03-29 02:00 → 03:00 and 2026-10-25 03:00 → 02:00.
New York: 2026-03-08 02:00 → 03:00 and 2026-11-01 02:00 → 01:00.
Lord Howe: 2026-04-05 02:00 → 01:30 and 2026-10-04 02:00 → 02:30.
"""

from __future__ import annotations

from datetime import datetime
from zoneinfo import ZoneInfo

import pytest

from tests.model.schedules.given import DAY, HOUR, cron, every, utc
from trellis_jobs.model.schedules.ticks import latest_tick, newest_ticks, next_tick, ticks_between

BERLIN, NEW_YORK, LORD_HOWE = "Europe/Berlin", "America/New_York", "Australia/Lord_Howe"


def shown(expression: str, zone: str, begin: str, end: str) -> list[str]:
    """The ticks from `begin` to `end` as clocks show them, with their offsets."""
    since, until = utc(begin), utc(end)
    definition = cron(expression, zone)
    ticks = ticks_between(definition, since, until, 1000)
    assert newest_ticks(definition, since, until, 1000) == ticks
    return [text(tick, zone) for tick in ticks]


def text(tick: datetime, zone: str) -> str:
    local = tick.astimezone(ZoneInfo(zone))
    offset = local.strftime("%z").removesuffix("00")
    return f"{local:%H:%M}{offset}"


def day(expression: str, zone: str, date: str) -> list[str]:
    """The ticks of one local day; the days are far enough from UTC's to be found by their date."""
    since = utc(date) - DAY
    definition = cron(expression, zone)
    ticks = ticks_between(definition, since, since + 3 * DAY, 1000)
    assert newest_ticks(definition, since, since + 3 * DAY, 1000) == ticks
    info = ZoneInfo(zone)
    return [text(tick, zone) for tick in ticks if str(tick.astimezone(info).date()) == date]


@pytest.mark.parametrize(
    ("expression", "zone", "date", "expected"),
    [
        # The skipped time is replaced by the first one after it.
        ("30 2 * * *", BERLIN, "2026-03-29", ["03:00+02"]),
        ("30 2 * * *", NEW_YORK, "2026-03-08", ["03:00-04"]),
        ("15 2 * * *", LORD_HOWE, "2026-10-04", ["02:30+11"]),
        # With seconds, too.
        ("0 30 2 * * *", BERLIN, "2026-03-29", ["03:00+02"]),
        ("*/20 30 2 * * *", BERLIN, "2026-03-29", ["03:00+02"]),
        # Several skipped times have one tick, also together with the time after the gap.
        ("15,45 2 * * *", BERLIN, "2026-03-29", ["03:00+02"]),
        ("0 2,3,4 * * *", BERLIN, "2026-03-29", ["03:00+02", "04:00+02"]),
        ("30 1,2,3 * * *", BERLIN, "2026-03-29", ["01:30+01", "03:00+02", "03:30+02"]),
        # The repeated time counts once, the first time.
        ("30 2 * * *", BERLIN, "2026-10-25", ["02:30+02"]),
        ("30 1 * * *", NEW_YORK, "2026-11-01", ["01:30-04"]),
        ("30 2 * * *", NEW_YORK, "2026-11-01", ["02:30-05"]),
        ("45 1 * * *", LORD_HOWE, "2026-04-05", ["01:45+11"]),
        ("0 30 2 * * *", BERLIN, "2026-10-25", ["02:30+02"]),
        ("30 1,2,3 * * *", BERLIN, "2026-10-25", ["01:30+02", "02:30+02", "03:30+01"]),
        # Other days, and the edges of the change itself.
        ("30 2 * * *", BERLIN, "2026-03-28", ["02:30+01"]),
        ("30 2 * * *", BERLIN, "2026-03-30", ["02:30+02"]),
        ("0 3 * * *", BERLIN, "2026-03-29", ["03:00+02"]),
        ("0 3 * * *", BERLIN, "2026-10-25", ["03:00+01"]),
        ("0 2 * * *", BERLIN, "2026-10-25", ["02:00+02"]),
        ("@daily", BERLIN, "2026-10-25", ["00:00+02"]),
    ],
)
def test_an_appointment_happens_once_on_the_day_of_a_change(
    expression: str, zone: str, date: str, expected: list[str]
) -> None:
    assert day(expression, zone, date) == expected


@pytest.mark.parametrize("expression", ["*/15 * * * *", "0,15,30,45 * * * *", "0 */15 * * * *"])
def test_every_quarter_of_an_hour_goes_on_through_a_change(expression: str) -> None:
    assert shown(expression, BERLIN, "2026-03-29T00:29", "2026-03-29T01:30") == [
        "01:30+01",
        "01:45+01",
        "03:00+02",
        "03:15+02",
        "03:30+02",
    ]
    assert shown(expression, BERLIN, "2026-10-25T00:29", "2026-10-25T02:00") == [
        "02:30+02",
        "02:45+02",
        "02:00+01",
        "02:15+01",
        "02:30+01",
        "02:45+01",
        "03:00+01",
    ]
    assert shown(expression, NEW_YORK, "2026-03-08T06:29", "2026-03-08T07:15") == [
        "01:30-05",
        "01:45-05",
        "03:00-04",
        "03:15-04",
    ]
    assert shown(expression, NEW_YORK, "2026-11-01T05:29", "2026-11-01T06:30") == [
        "01:30-04",
        "01:45-04",
        "01:00-05",
        "01:15-05",
        "01:30-05",
    ]
    assert shown(expression, LORD_HOWE, "2026-10-03T15:14", "2026-10-03T16:00") == [
        "01:45+1030",
        "02:30+11",
        "02:45+11",
        "03:00+11",
    ]
    assert shown(expression, LORD_HOWE, "2026-04-04T14:29", "2026-04-04T15:45") == [
        "01:30+11",
        "01:45+11",
        "01:30+1030",
        "01:45+1030",
        "02:00+1030",
        "02:15+1030",
    ]


@pytest.mark.parametrize("expression", ["0 * * * *", "@hourly"])
def test_every_hour_goes_on_through_a_change(expression: str) -> None:
    assert shown(expression, BERLIN, "2026-03-28T23:30", "2026-03-29T02:00") == [
        "01:00+01",
        "03:00+02",
        "04:00+02",
    ]
    assert shown(expression, BERLIN, "2026-10-24T23:30", "2026-10-25T02:00") == [
        "02:00+02",
        "02:00+01",
        "03:00+01",
    ]
    assert shown(expression, NEW_YORK, "2026-03-08T05:30", "2026-03-08T08:00") == [
        "01:00-05",
        "03:00-04",
        "04:00-04",
    ]
    assert shown(expression, NEW_YORK, "2026-11-01T04:30", "2026-11-01T07:00") == [
        "01:00-04",
        "01:00-05",
        "02:00-05",
    ]
    # 02:00 is skipped; clocks never show it again before 03:00, half an hour after the change.
    assert shown(expression, LORD_HOWE, "2026-10-03T14:00", "2026-10-03T17:00") == [
        "01:00+1030",
        "03:00+11",
        "04:00+11",
    ]
    assert shown(expression, LORD_HOWE, "2026-04-04T13:30", "2026-04-04T16:30") == [
        "01:00+11",
        "02:00+1030",
        "03:00+1030",
    ]


def test_every_half_past_goes_on_through_a_change() -> None:
    expression = "30 * * * *"
    assert shown(expression, BERLIN, "2026-03-29T00:00", "2026-03-29T02:00") == [
        "01:30+01",
        "03:30+02",
    ]
    assert shown(expression, BERLIN, "2026-10-25T00:00", "2026-10-25T02:30") == [
        "02:30+02",
        "02:30+01",
        "03:30+01",
    ]
    assert shown(expression, NEW_YORK, "2026-03-08T06:00", "2026-03-08T08:00") == [
        "01:30-05",
        "03:30-04",
    ]
    assert shown(expression, NEW_YORK, "2026-11-01T05:00", "2026-11-01T07:30") == [
        "01:30-04",
        "01:30-05",
        "02:30-05",
    ]
    assert shown(expression, LORD_HOWE, "2026-10-03T14:30", "2026-10-03T17:00") == [
        "01:30+1030",
        "02:30+11",
        "03:30+11",
    ]
    assert shown(expression, LORD_HOWE, "2026-04-04T14:00", "2026-04-04T16:30") == [
        "01:30+11",
        "01:30+1030",
        "02:30+1030",
    ]


def test_no_tick_is_lost_where_clocks_change_by_half_an_hour() -> None:
    """A plain walk of cronsim in this time zone loses 01:45+10:30 and 02:45+11."""
    assert shown("45 * * * *", LORD_HOWE, "2026-04-04T14:00", "2026-04-04T16:30") == [
        "01:45+11",
        "01:45+1030",
        "02:45+1030",
    ]
    assert shown("45 * * * *", LORD_HOWE, "2026-10-03T15:00", "2026-10-03T17:00") == [
        "01:45+1030",
        "02:45+11",
        "03:45+11",
    ]


@pytest.mark.parametrize("expression", ["50 2 * * *", "0 50 2 * * *", "10,50 2 * * *"])
def test_the_newest_tick_is_found_also_during_the_repeated_hour(expression: str) -> None:
    """At 02:20 for the second time, 02:50 was there already."""
    tick, second = utc("2026-10-25T00:50"), utc("2026-10-25T01:20")
    definition = cron(expression, BERLIN)
    assert latest_tick(definition, tick - HOUR, second) == tick
    following = next_tick(definition, second)
    assert following is not None
    assert following > second + 12 * HOUR


def test_an_interval_does_not_notice_a_change() -> None:
    begin = utc("2026-03-29T00:00")
    ticks = ticks_between(every(6 * HOUR), begin, begin + DAY, 10)
    assert ticks == [begin + n * 6 * HOUR for n in range(1, 5)]
