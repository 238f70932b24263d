"""Since when a schedule waits for a process, by which lost alarms are found."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.model.schedules.given import DAY, HOUR, MINUTE, NIGHTLY, every, record, utc
from trellis_jobs.environment import new_id
from trellis_jobs.model.identity import ulid, ulid_milliseconds
from trellis_jobs.model.schedules.address import EPOCH, ScheduleAddress, tick_job_id, tick_of_job
from trellis_jobs.model.schedules.changes import trigger
from trellis_jobs.model.schedules.firing import handover_delay, waits_since
from trellis_jobs.model.schedules.record import Decision, Pause
from trellis_jobs.model.values import replace

NOON = utc("2026-05-01T12:00")
HOURLY = record(every(HOUR), NOON)


def test_a_schedule_waits_from_its_next_tick_on() -> None:
    assert waits_since(HOURLY, NOON) == NOON + HOUR


def test_a_record_that_was_written_later_waits_from_then_on() -> None:
    """Such as one that was resumed after ticks were missed."""
    assert waits_since(HOURLY, NOON + DAY) == NOON + DAY


def test_jobs_that_are_not_created_wait_since_they_were_decided() -> None:
    """By the server's clock: that of the process that decided them may be wrong."""
    decided = trigger(HOURLY, new_id(), by="ann", now=NOON + 100 * DAY)
    assert isinstance(decided, Decision)
    assert waits_since(decided.record, NOON + MINUTE) == NOON + MINUTE


def test_a_paused_schedule_waits_from_the_end_of_its_pause_on() -> None:
    paused = replace(HOURLY, paused=Pause(since=NOON, until=NOON + DAY))
    assert waits_since(paused, NOON) == NOON + DAY
    assert waits_since(replace(HOURLY, paused=Pause(since=NOON)), NOON) is None


def test_a_schedule_that_has_ended_waits_for_nothing() -> None:
    assert waits_since(record(every(HOUR, end=NOON), NOON), NOON) is None


@given(milliseconds=st.integers(0, 2**47), randomness=st.integers(0, 2**80 - 1))
def test_the_time_of_a_ulid_can_be_read(milliseconds: int, randomness: int) -> None:
    assert ulid_milliseconds(ulid(milliseconds, randomness)) == milliseconds


@given(text=st.text(max_size=30))
def test_other_texts_have_no_time(text: str) -> None:
    if ulid_milliseconds(text) is not None:
        assert len(text) == 26
    for other in ("", "8" + "0" * 25, "0" * 27, "é" * 26, "U" * 26):
        assert ulid_milliseconds(other) is None


@given(milliseconds=st.integers(0, 10**14))
def test_the_tick_of_a_job_is_in_its_id(milliseconds: int) -> None:
    tick = EPOCH + timedelta(milliseconds=milliseconds)
    job_id = tick_job_id(NIGHTLY, tick)
    assert tick_of_job(NIGHTLY, job_id) == tick
    assert tick_of_job(ScheduleAddress("documents", "render-report", "daily"), job_id) is None
    assert tick_of_job(NIGHTLY, new_id()) is None


@pytest.mark.parametrize(
    ("waited", "seconds"), [(-1, 5), (0, 5), (50, 5), (600, 60), (3_000, 300), (10**6, 300)]
)
def test_an_alarm_is_left_to_others_ever_longer_up_to_five_minutes(
    waited: float, seconds: float
) -> None:
    assert handover_delay(timedelta(seconds=waited)) == timedelta(seconds=seconds)
