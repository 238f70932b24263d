"""Durations are read as people write them, and written so that they can be read again."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trellis_jobs.model.durations import compact_duration, parse_duration


@pytest.mark.parametrize(
    ("text", "duration"),
    [
        ("90s", timedelta(seconds=90)),
        ("0.5s", timedelta(milliseconds=500)),
        ("10m", timedelta(minutes=10)),
        ("1.5h", timedelta(minutes=90)),
        ("3d", timedelta(days=3)),
        ("2w", timedelta(days=14)),
    ],
)
def test_a_duration_is_a_number_and_a_unit(text: str, duration: timedelta) -> None:
    assert parse_duration(text) == duration


@pytest.mark.parametrize("text", ["", "90", "m", "-1s", ".5s", "1 h", "1h30m", "14:03:07", "٣s"])
def test_anything_else_is_not_a_duration(text: str) -> None:
    assert parse_duration(text) is None


@pytest.mark.parametrize("text", ["999999999999d", f"{'9' * 5_000}s"])
def test_a_duration_that_no_clock_can_measure_is_an_overflow(text: str) -> None:
    with pytest.raises(OverflowError):
        parse_duration(text)


@pytest.mark.parametrize(
    ("duration", "text"),
    [
        (timedelta(days=7), "7d"),
        (timedelta(hours=36), "36h"),
        (timedelta(minutes=90), "90m"),
        (timedelta(seconds=61), "61s"),
        (timedelta(seconds=0.25), "0.25s"),
    ],
)
def test_a_compact_duration_has_the_largest_unit_that_divides_it(
    duration: timedelta, text: str
) -> None:
    assert compact_duration(duration) == text


@given(st.integers(1, 36_500 * 86_400_000))
def test_a_compact_duration_is_read_as_it_was(milliseconds: int) -> None:
    duration = timedelta(milliseconds=milliseconds)
    assert parse_duration(compact_duration(duration)) == duration
