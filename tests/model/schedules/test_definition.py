"""Definitions are valid, and their fingerprints tell whether two are equal."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from tests.model.schedules.given import DAY, HOUR, cron, every, utc
from trellis_jobs.errors import DeclarationError
from trellis_jobs.model.schedules.definition import (
    CatchUp,
    CronTiming,
    IntervalTiming,
    Overlap,
    ScheduleDefinition,
)


@pytest.mark.parametrize(
    ("expression", "complaint"),
    [
        ("61 * * * *", "the minute field '61' is not valid: use 0-59"),
        ("* 24 * * *", "the hour field '24' is not valid: use 0-23"),
        ("0 0 32 * *", "the day-of-month field '32'"),
        ("0 0 30 2 *", "the day-of-month field '30' is not valid"),
        ("0 0 1 13 *", "the month field '13' is not valid: use 1-12 or JAN-DEC"),
        ("0 0 * * 8", "the day-of-week field '8'"),
        ("60 0 0 * * *", "the second field '60'"),
        ("0 x 0 * * *", "the minute field 'x'"),
        ("5-1 * * * *", "the minute field '5-1'"),
        ("*/0 * * * *", r"the minute field '\*/0'"),
        ("* * * *", "it has 4 fields; use 5"),
        ("* * * * * * *", "it has 7 fields"),
        ("", "it has 0 fields"),
        ("@dayly", "'@dayly' is not known; the aliases are @hourly, @daily"),
        ("@reboot", "is not known"),
        ("* * */20 * 1L", "never matches any time"),
        ("0 0 1,1,1,1" + ",1" * 200 + " * *", "at most 200 characters"),
    ],
)
def test_a_wrong_expression_is_refused_with_its_field(expression: str, complaint: str) -> None:
    with pytest.raises(DeclarationError, match=complaint):
        CronTiming(expression)


@pytest.mark.parametrize(
    "zone",
    [
        "",
        "Mars/Olympus",
        "America",
        "../../etc/passwd",
        "/etc/passwd",
        "localtime",
        "a\0b",
        "x" * 999,
    ],
)
def test_an_unknown_time_zone_is_refused(zone: str) -> None:
    with pytest.raises(DeclarationError, match="is not known: use a name such as"):
        CronTiming("0 9 * * *", zone)


@pytest.mark.parametrize(
    ("interval", "complaint"),
    [
        (timedelta(milliseconds=999), "at least 1 s"),
        (timedelta(seconds=-5), "at least 1 s"),
        (timedelta(days=40_000), "at most 100 years"),
        (timedelta(seconds=1, microseconds=5), "whole number of milliseconds"),
    ],
)
def test_an_interval_has_bounds(interval: timedelta, complaint: str) -> None:
    with pytest.raises(DeclarationError, match=complaint):
        IntervalTiming(interval)


@pytest.mark.parametrize(
    ("fields", "complaint"),
    [
        ({"jitter": timedelta(seconds=-1)}, "jitter is between 0 and 24 h"),
        ({"jitter": 2 * DAY}, "jitter is between 0 and 24 h"),
        ({"jitter": 2 * HOUR}, "at most the interval"),
        ({"jitter": timedelta(microseconds=1)}, "whole number of milliseconds"),
        ({"max_catch_up": 0}, "max_catch_up is between 1 and 1000"),
        ({"max_catch_up": 1001}, "max_catch_up is between 1 and 1000"),
        ({"start": utc("2026-01-02"), "end": utc("2026-01-01")}, "is before start"),
        ({"start": datetime(2026, 1, 1)}, "start must be in UTC"),  # noqa: DTZ001
        (
            {"end": datetime(2026, 1, 1, tzinfo=timezone(timedelta(hours=1)))},
            "end must be in UTC",
        ),
        ({"start": utc("1969-12-31")}, "start must be between 1970 and 9000"),
        ({"end": utc("9001-01-01")}, "end must be between 1970 and 9000"),
    ],
)
def test_a_definition_that_cannot_be_is_refused(fields: dict[str, Any], complaint: str) -> None:
    with pytest.raises(DeclarationError, match=complaint):
        every(HOUR, **fields)


ONE_OF_EACH = [
    cron("0 9 * * *"),
    cron("0 9 * * *", "Europe/Berlin"),
    cron("0 8 * * *"),
    every(300),
    every(301),
    cron("0 9 * * *", payload={"doc": "d-2"}),
    cron("0 9 * * *", payload=1),
    cron("0 9 * * *", payload=1.0),
    cron("0 9 * * *", payload=True),
    cron("0 9 * * *", payload=None),
    cron("0 9 * * *", version=2),
    cron("0 9 * * *", secrets=("/doc",)),
    cron("0 9 * * *", jitter=HOUR),
    cron("0 9 * * *", start=utc("2026-01-01")),
    cron("0 9 * * *", end=utc("2026-01-01")),
    cron("0 9 * * *", catch_up=CatchUp.ALL),
    cron("0 9 * * *", max_catch_up=5),
    cron("0 9 * * *", overlap=Overlap.SKIP),
]


def test_each_field_is_in_the_fingerprint() -> None:
    assert len({definition.fingerprint for definition in ONE_OF_EACH}) == len(ONE_OF_EACH)


def test_equal_definitions_have_one_fingerprint_whatever_the_order_of_their_payload() -> None:
    one = cron("0 9 * * *", payload={"a": 1, "b": [1, {"c": 2, "d": 3}]})
    same = cron("0 9 * * *", payload={"b": [1, {"d": 3, "c": 2}], "a": 1})
    assert one.fingerprint == same.fingerprint


def test_a_definition_does_not_show_its_secrets() -> None:
    definition = cron("0 9 * * *", payload={"token": "s3cret", "n": 1}, secrets=("/token",))
    assert "s3cret" not in repr(definition)
    assert "'n': 1" in repr(definition)


@pytest.mark.parametrize(
    ("definition", "shown"),
    [
        (cron("0 9 * * *", "Europe/Berlin"), "0 9 * * * (Europe/Berlin)"),
        (every(300), "every 5 min"),
    ],
)
def test_a_timing_is_shown_in_words(definition: ScheduleDefinition, shown: str) -> None:
    assert str(definition.timing) == shown
