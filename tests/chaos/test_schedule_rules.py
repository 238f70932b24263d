"""The rules about schedules can fail: each has records and jobs, made up, that break it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

import pytest

from tests import given
from tests.chaos.checker import check
from tests.chaos.observed import Observed, ScheduleVersion
from tests.chaos.test_checker import log, rules_broken
from tests.model.schedules.given import NIGHTLY, every, record
from trellis_jobs.model import events as e
from trellis_jobs.model.identity import JobAddress
from trellis_jobs.model.schedules.address import tick_job_id
from trellis_jobs.model.schedules.definition import CatchUp, Overlap
from trellis_jobs.model.schedules.record import PlannedJob, Run, ScheduleRecord, SkipReason
from trellis_jobs.model.values import replace

NOON = given.NOON
TICKS = [given.after(seconds) for seconds in range(1, 31)]
ALL = every(1, catch_up=CatchUp.ALL)
ONCE = every(1)


def job(tick: datetime, job_id: str | None = None) -> list[e.Event]:
    """It is created at its tick, and cancelled at once."""
    address = JobAddress(NIGHTLY.service, NIGHTLY.job_type, job_id or tick_job_id(NIGHTLY, tick))
    made = given.created(job=address, run_at=tick, schedule=NIGHTLY.schedule)
    return [made, given.cancelled(job=address, tries=0)]


def run(tick: datetime, **changes: Any) -> Run:
    return replace(Run(tick=tick, at=tick, job_id=tick_job_id(NIGHTLY, tick)), **changes)


def skipped(tick: datetime, count: int = 1) -> Run:
    return run(tick, job_id=None, skipped=SkipReason.MISSED, count=count)


def decided(definition: Any, tick: datetime, *runs: Run, **changes: Any) -> ScheduleRecord:
    return record(definition, NOON, decided_until=tick, runs=runs, **changes)


def observed(
    records: Sequence[ScheduleRecord], ticks: Sequence[datetime], **changes: Any
) -> Observed:
    """The record has these versions, and each of the ticks has a job."""
    events = [event for tick in ticks for event in job(tick)]
    versions = [ScheduleVersion(number, each) for number, each in enumerate(records)]
    changes = {"entries": log(*events), **changes}
    return Observed(schedules=versions, **changes)


@pytest.mark.parametrize("definition", [ALL, ONCE])
def test_a_job_for_each_tick_breaks_nothing(definition: Any) -> None:
    last = decided(definition, TICKS[2], *map(run, TICKS[:3]))
    assert check(observed([record(definition, NOON), last], TICKS[:3])) == []


def test_ticks_that_a_policy_left_out_break_nothing() -> None:
    last = decided(ONCE, TICKS[4], skipped(TICKS[3], 4), run(TICKS[4]))
    assert check(observed([record(ONCE, NOON), last], TICKS[4:5])) == []


def test_runs_that_the_record_has_forgotten_break_nothing() -> None:
    last = decided(ONCE, TICKS[19], *map(run, TICKS[10:20]))
    assert check(observed([record(ONCE, NOON), last], TICKS[10:20])) == []


def test_another_timing_breaks_nothing() -> None:
    last = decided(every(2), TICKS[4])
    assert check(observed([record(ALL, NOON), last], [])) == []


def test_a_schedule_that_was_made_again_breaks_nothing() -> None:
    again = record(ALL, TICKS[4])
    assert check(observed([record(ALL, NOON), again, decided(ALL, NOON)], [])) == []


def test_a_job_that_is_planned_when_its_schedule_is_deleted_breaks_nothing() -> None:
    planned = PlannedJob(job_id=tick_job_id(NIGHTLY, TICKS[0]), tick=TICKS[0])
    last = decided(ALL, TICKS[0], run(TICKS[0]), unfinished=(planned,))
    assert check(observed([record(ALL, NOON), last], [])) == []


@pytest.mark.parametrize("definition", [ALL, ONCE])
def test_a_tick_without_a_job(definition: Any) -> None:
    last = decided(definition, TICKS[2], run(TICKS[0]), run(TICKS[2]))
    [violation] = check(observed([record(definition, NOON), last], [TICKS[0], TICKS[2]]))
    assert violation.rule == "no tick is lost"
    assert str(TICKS[1]) in violation.what


def test_a_tick_that_is_left_out_although_all_are_caught_up() -> None:
    last = decided(ALL, TICKS[1], skipped(TICKS[0]), run(TICKS[1]))
    seen = observed([record(ALL, NOON), last], TICKS[1:2])
    assert rules_broken(seen) == {"no tick is lost"}


def test_a_job_that_the_record_says_exists() -> None:
    last = decided(every(2), TICKS[1], run(TICKS[1]))
    seen = observed([record(ALL, NOON), last], [])
    assert rules_broken(seen) == {"a job that a schedule says it created is in the log"}


def test_ticks_that_are_decided_again() -> None:
    records = [decided(ALL, TICKS[1], *map(run, TICKS[:2])), decided(ALL, TICKS[0], run(TICKS[0]))]
    assert rules_broken(observed(records, TICKS[:2])) == {"what is decided stays decided"}


def test_a_tick_with_two_jobs() -> None:
    events = [*job(TICKS[0]), *job(TICKS[0], "another")]
    [violation] = check(observed([], [], entries=log(*events)))
    assert violation.rule == "a tick has exactly one job"
    assert len(violation.history) == 4


def test_a_job_that_was_triggered_is_of_no_tick() -> None:
    events = job(TICKS[0] + timedelta(milliseconds=1), "triggered")
    assert check(observed([record(ALL, NOON)], [], entries=log(*events))) == []


def test_a_tick_whose_job_is_early() -> None:
    jittery = every(1, jitter=timedelta(seconds=1))
    for definition, stored_at in ((ALL, TICKS[0] - timedelta(milliseconds=1)), (jittery, TICKS[0])):
        seen = observed([record(definition, NOON)], TICKS[:1], stored_at={1: stored_at})
        assert rules_broken(seen) == {"no tick has its job early"}
    assert check(observed([record(ALL, NOON)], TICKS[:1], stored_at={1: TICKS[0]})) == []


@pytest.mark.parametrize("overlap", [Overlap.SKIP, Overlap.CANCEL_RUNNING])
def test_jobs_that_overlap(overlap: Overlap) -> None:
    first, second = job(TICKS[0]), job(TICKS[1])
    beside = log(first[0], second[0], first[1], second[1])
    records = [record(every(1, overlap=overlap), NOON)]
    assert rules_broken(observed(records, [], entries=beside)) == {
        "no two jobs of a schedule overlap"
    }
    assert check(observed([record(ALL, NOON)], [], entries=beside)) == []


def test_a_schedule_that_stopped() -> None:
    seen = observed([], [], late=[NIGHTLY])
    assert rules_broken(seen) == {"every schedule fires in the end"}
