"""Schedules are described in words that an operator understands."""

from __future__ import annotations

from datetime import timedelta

import pytest

from tests.model.schedules.given import cron, every, utc
from trellis_jobs.model.schedules.cron import ALIASES
from trellis_jobs.model.schedules.definition import CatchUp, Overlap, ScheduleDefinition
from trellis_jobs.model.schedules.description import (
    describe,
    describe_catch_up,
    describe_overlap,
)

MINUTES = timedelta(minutes=5)


@pytest.mark.parametrize(
    ("definition", "words"),
    [
        (cron("0 9 * * *", "Europe/Berlin"), "At 09:00 every day (Europe/Berlin)"),
        (cron("@daily"), "At 00:00 every day (UTC)"),
        (cron("30 2 * * 1-5"), "At 02:30 on Monday through Friday (UTC)"),
        (cron("*/10 * * * * *"), "Every 10th second of every minute (UTC)"),
        (every(300), "Every 5 min"),
        (every(90_061.5), "Every 1 d 1 h 1 min 1 s 500 ms"),
        (every(300, jitter=MINUTES), "Every 5 min, up to 5 min later"),
        (
            every(300, start=utc("2027-01-01T00:00"), end=utc("2027-02-01T00:00")),
            "Every 5 min, from 2027-01-01T00:00:00Z, until 2027-02-01T00:00:00Z",
        ),
    ],
)
def test_a_timing_in_words(definition: ScheduleDefinition, words: str) -> None:
    assert describe(definition) == words


@pytest.mark.parametrize("alias", ALIASES)
def test_every_alias_has_words(alias: str) -> None:
    assert describe(cron(alias)).startswith(("At ", "Every "))


def test_policies_in_words() -> None:
    assert describe_catch_up(every(60, catch_up=CatchUp.SKIP)) == "no jobs"
    assert describe_catch_up(every(60)) == "one job, for the newest"
    all_of_them = every(60, catch_up=CatchUp.ALL, max_catch_up=1000)
    assert describe_catch_up(all_of_them) == "a job for each, at most 1,000"
    assert len({describe_overlap(every(60, overlap=each)) for each in Overlap}) == len(Overlap)
