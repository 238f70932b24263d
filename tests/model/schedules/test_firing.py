"""Which jobs a schedule creates, which ticks it skips and why, and when its next alarm is."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest

from tests.model.schedules.given import ANN, DAY, DEPLOY, HOUR, MINUTE, NIGHTLY, cron, every, utc
from tests.model.schedules.given import record as make
from trellis_jobs.model.schedules.address import tick_job_id
from trellis_jobs.model.schedules.changes import (
    MAX_TRIGGERED,
    Refused,
    finish,
    pause,
    put,
    resume,
    trigger,
)
from trellis_jobs.model.schedules.definition import CatchUp, Overlap, ScheduleDefinition
from trellis_jobs.model.schedules.firing import alarm_time, fire, fire_time, next_fire_time
from trellis_jobs.model.schedules.record import (
    Cancellation,
    Decision,
    Origin,
    Pause,
    ScheduleRecord,
    SkipReason,
)
from trellis_jobs.model.schedules.ticks import ticks_between
from trellis_jobs.model.states import LIVE, OVER, JobState
from trellis_jobs.model.values import replace

NOON = utc("2026-03-28T12:00")
SECOND = timedelta(seconds=1)
HOURLY = cron("0 * * * *")


def created(decision: Decision) -> list[datetime]:
    return [job.tick for job in decision.record.unfinished]


def skipped(record: ScheduleRecord) -> list[tuple[datetime, SkipReason, int]]:
    return [(run.tick, run.skipped, run.count) for run in record.runs if run.skipped is not None]


def fired(definition: ScheduleDefinition, now: datetime, **fields: Any) -> Decision:
    """What a schedule decides that was made at noon and not looked at since."""
    return fire(make(definition, NOON), now=now, **fields)


def done(decision: Decision) -> ScheduleRecord:
    ids = [job.job_id for job in decision.record.unfinished]
    return finish(decision.record, ids, now=decision.record.updated_at)


def test_nothing_happens_before_the_first_tick() -> None:
    before = make(HOURLY, NOON)
    assert fire(before, now=NOON + HOUR - SECOND) == Decision(before, NOON + HOUR)


def test_a_tick_creates_one_job_under_its_own_id_and_sets_the_next_alarm() -> None:
    decision = fired(HOURLY, NOON + HOUR)
    [job] = decision.record.unfinished
    assert (job.tick, job.job_id) == (NOON + HOUR, tick_job_id(NIGHTLY, NOON + HOUR))
    assert decision.record.decided_until == NOON + HOUR
    assert decision.record.last_job == job.job_id
    assert decision.alarm_at == NOON + 2 * HOUR
    [run] = decision.record.runs
    assert (run.tick, run.job_id, run.at) == (NOON + HOUR, job.job_id, NOON + HOUR)


def test_the_same_alarm_a_second_time_changes_nothing() -> None:
    decision = fired(HOURLY, NOON + HOUR)
    assert fire(decision.record, now=NOON + HOUR + SECOND) == decision
    finished = done(decision)
    assert fire(finished, now=NOON + HOUR + MINUTE) == Decision(finished, NOON + 2 * HOUR)


def test_nothing_new_is_decided_while_jobs_are_unfinished() -> None:
    """So a record never collects more jobs than one decision makes."""
    decision = fired(HOURLY, NOON + HOUR)
    assert fire(decision.record, now=NOON + 9 * HOUR) == decision
    assert created(fire(done(decision), now=NOON + 9 * HOUR)) == [NOON + 9 * HOUR]


def test_a_process_whose_clock_is_behind_decides_nothing_again() -> None:
    finished = done(fired(HOURLY, NOON + 5 * HOUR))
    assert fire(finished, now=NOON + 2 * HOUR).record == finished


@pytest.mark.parametrize(
    ("catch_up", "expected", "missed"),
    [
        (CatchUp.SKIP, [], 5),
        (CatchUp.ONCE, [5], 4),
        (CatchUp.ALL, [1, 2, 3, 4, 5], 0),
    ],
)
def test_an_outage_is_caught_up_by_policy(
    catch_up: CatchUp, expected: list[int], missed: int
) -> None:
    decision = fired(cron("0 * * * *", catch_up=catch_up), NOON + 5.5 * HOUR)
    assert created(decision) == [NOON + n * HOUR for n in expected]
    newest = NOON + (5 - len(expected)) * HOUR
    assert skipped(decision.record) == ([(newest, SkipReason.MISSED, missed)] if missed else [])
    assert decision.record.decided_until == NOON + 5 * HOUR
    assert decision.alarm_at == NOON + 6 * HOUR


def test_all_is_limited_to_the_newest_ticks() -> None:
    decision = fired(cron("0 * * * *", catch_up=CatchUp.ALL, max_catch_up=3), NOON + 100 * HOUR)
    assert created(decision) == [NOON + n * HOUR for n in (98, 99, 100)]
    assert skipped(decision.record) == [(NOON + 97 * HOUR, SkipReason.MISSED, 97)]


def test_a_year_of_seconds_is_decided_at_once() -> None:
    definition = every(1, catch_up=CatchUp.ALL, max_catch_up=1000)
    decision = fired(definition, NOON + 365 * DAY)
    assert len(created(decision)) == 1000
    # More than a thousand missed ticks are not counted.
    assert len(decision.record.runs) == 10


@pytest.mark.parametrize(
    ("definition", "grace"),
    [
        (HOURLY, 60 * SECOND),
        (every(HOUR), 60 * SECOND),
        (every(HOUR / 360), 10 * SECOND),
        (cron("*/5 * * * * *"), 5 * SECOND),
    ],
)
def test_skip_still_creates_the_job_of_a_tick_that_is_a_little_late(
    definition: ScheduleDefinition, grace: timedelta
) -> None:
    skip = replace(definition, catch_up=CatchUp.SKIP)
    [tick] = ticks_between(skip, NOON, NOON + HOUR, 1)
    microsecond = timedelta(microseconds=1)
    assert created(fired(skip, tick + grace - microsecond)) == [tick]
    late = fired(skip, tick + grace + microsecond)
    assert tick not in created(late)


def test_missed_ticks_are_those_that_jitter_has_delayed_and_are_due() -> None:
    definition = cron("0 * * * *", jitter=30 * MINUTE)
    at = fire_time(definition, NIGHTLY, NOON + HOUR)
    assert created(fired(definition, at - SECOND)) == []
    assert fired(definition, at - SECOND).alarm_at == at
    assert created(fired(definition, at)) == [NOON + HOUR]


def test_jitter_longer_than_the_gap_between_ticks_keeps_their_order() -> None:
    definition = cron("* * * * *", jitter=HOUR, catch_up=CatchUp.ALL, max_catch_up=1000)
    record, found = make(definition, NOON), []
    for n in range(3 * 60):
        now = NOON + n * MINUTE
        decision = fire(record, now=now)
        ticks = created(decision)
        assert all(fire_time(definition, NIGHTLY, tick) <= now for tick in ticks)
        found += ticks
        record = done(decision)
        undecided = ticks_between(definition, record.decided_until, now - HOUR, 1)
        assert undecided == []
    assert found == ticks_between(definition, NOON, found[-1], 1000)


# --- Overlap


@pytest.mark.parametrize("state", sorted(LIVE))
def test_skip_creates_no_job_before_the_previous_one_has_ended(state: JobState) -> None:
    record = done(fired(cron("0 * * * *", overlap=Overlap.SKIP), NOON + HOUR))
    assert record.previous_job == record.last_job
    decision = fire(record, now=NOON + 2 * HOUR, previous=state)
    assert created(decision) == []
    assert skipped(decision.record) == [(NOON + 2 * HOUR, SkipReason.OVERLAP, 1)]
    assert decision.record.last_job == record.last_job
    assert decision.alarm_at == NOON + 3 * HOUR


@pytest.mark.parametrize("state", [*sorted(OVER), None])
@pytest.mark.parametrize("overlap", Overlap)
def test_a_job_that_has_ended_or_is_gone_is_in_nobodys_way(
    overlap: Overlap, state: JobState | None
) -> None:
    record = done(fired(cron("0 * * * *", overlap=overlap), NOON + HOUR))
    [job] = fire(record, now=NOON + 2 * HOUR, previous=state).record.unfinished
    assert (job.tick, job.cancel) == (NOON + 2 * HOUR, None)


@pytest.mark.parametrize(
    ("overlap", "state", "cancels"),
    [
        (Overlap.REPLACE, JobState.SCHEDULED, True),
        (Overlap.REPLACE, JobState.PENDING, True),
        (Overlap.REPLACE, JobState.RETRY, True),
        (Overlap.REPLACE, JobState.ACTIVE, False),
        (Overlap.CANCEL_RUNNING, JobState.PENDING, True),
        (Overlap.CANCEL_RUNNING, JobState.RETRY, True),
        (Overlap.CANCEL_RUNNING, JobState.ACTIVE, True),
        (Overlap.ALLOW, JobState.ACTIVE, False),
    ],
)
def test_replace_cancels_what_waits_and_cancel_running_also_what_runs(
    overlap: Overlap, state: JobState, cancels: bool
) -> None:
    record = done(fired(cron("0 * * * *", overlap=overlap), NOON + HOUR))
    assert record.last_job is not None
    [job] = fire(record, now=NOON + 2 * HOUR, previous=state).record.unfinished
    even_if_running = overlap is Overlap.CANCEL_RUNNING
    assert job.cancel == (Cancellation(record.last_job, even_if_running) if cancels else None)


def test_allow_needs_no_look_at_the_previous_job() -> None:
    assert done(fired(HOURLY, NOON + HOUR)).previous_job is None


@pytest.mark.parametrize(
    ("overlap", "expected"),
    [
        (Overlap.ALLOW, [1, 2, 3]),
        (Overlap.SKIP, [1]),
        (Overlap.REPLACE, [3]),
        (Overlap.CANCEL_RUNNING, [3]),
    ],
)
def test_ticks_that_are_caught_up_do_not_overlap_either(
    overlap: Overlap, expected: list[int]
) -> None:
    definition = cron("0 * * * *", catch_up=CatchUp.ALL, overlap=overlap)
    decision = fired(definition, NOON + 3 * HOUR)
    assert created(decision) == [NOON + n * HOUR for n in expected]
    assert [tick for tick, why, _ in skipped(decision.record) if why is SkipReason.OVERLAP] == [
        NOON + n * HOUR for n in (1, 2, 3) if n not in expected
    ]


# --- Pause


PAUSED = Pause(since=NOON, by="ann", reason="the printer burns")


def test_a_paused_schedule_creates_nothing_and_needs_no_alarm() -> None:
    paused = pause(make(HOURLY, NOON), PAUSED)
    assert paused.alarm_at is None
    assert fire(paused.record, now=NOON + 5 * HOUR) == paused


@pytest.mark.parametrize(
    ("catch_up", "expected", "why"),
    [
        (CatchUp.SKIP, [], SkipReason.PAUSED),
        (CatchUp.ONCE, [5], SkipReason.MISSED),
        (CatchUp.ALL, [1, 2, 3, 4, 5], None),
    ],
)
def test_a_pause_is_caught_up_by_policy(
    catch_up: CatchUp, expected: list[int], why: SkipReason | None
) -> None:
    definition, now = cron("0 * * * *", catch_up=catch_up), NOON + 5.5 * HOUR
    resumed = resume(pause(make(definition, NOON), PAUSED).record, now=now)
    assert resumed.record.paused is None
    decision = fire(resumed.record, now=now)
    assert created(decision) == [NOON + n * HOUR for n in expected]
    assert [reason for _, reason, _ in skipped(decision.record)] == ([why] if why else [])
    assert decision.alarm_at == NOON + 6 * HOUR
    assert resumed.alarm_at == (NOON + 6 * HOUR if catch_up is CatchUp.SKIP else NOON + HOUR)


def test_a_pause_ends_by_itself_at_its_time() -> None:
    until = NOON + 3.5 * HOUR
    skip = cron("0 * * * *", catch_up=CatchUp.SKIP)
    paused = pause(make(skip, NOON), replace(PAUSED, until=until))
    assert paused.alarm_at == until
    assert fire(paused.record, now=until - SECOND) == paused
    ended = fire(paused.record, now=until)
    assert ended.record.paused is None
    assert skipped(ended.record) == [(NOON + 3 * HOUR, SkipReason.PAUSED, 3)]
    assert ended.alarm_at == NOON + 4 * HOUR
    # The process that looks at it was late: the ticks after the pause are not of the pause.
    late = fire(paused.record, now=NOON + 4 * HOUR + SECOND)
    assert created(late) == [NOON + 4 * HOUR]


def test_jobs_that_were_decided_before_a_pause_are_created() -> None:
    decided = fired(HOURLY, NOON + HOUR).record
    paused = pause(decided, replace(PAUSED, since=NOON + HOUR))
    assert paused.record.unfinished == decided.unfinished
    assert paused.alarm_at == NOON + HOUR


def test_a_schedule_that_is_not_paused_cannot_be_resumed() -> None:
    record = make(HOURLY, NOON)
    assert resume(record, now=NOON + DAY).record == record


# --- Definition


def test_an_equal_definition_changes_nothing() -> None:
    record = done(fired(HOURLY, NOON + HOUR))
    again = put(record, cron("0 * * * *"), author=DEPLOY, now=NOON + 90 * MINUTE)
    assert again == Decision(record, NOON + 2 * HOUR)


def test_another_timing_counts_from_the_change_on() -> None:
    later = NOON + 5.5 * HOUR
    changed = put(make(HOURLY, NOON), cron("*/20 * * * *"), author=DEPLOY, now=later)
    assert skipped(changed.record) == [(NOON + 5 * HOUR, SkipReason.CHANGED, 5)]
    assert changed.alarm_at == NOON + 5 * HOUR + 40 * MINUTE
    assert created(fire(changed.record, now=later)) == []
    decision = fire(changed.record, now=NOON + 5 * HOUR + 40 * MINUTE)
    assert created(decision) == [NOON + 5 * HOUR + 40 * MINUTE]


@pytest.mark.parametrize(
    "definition",
    [every(HOUR, start=NOON - DAY), cron("0 * * * *", start=NOON - DAY), cron("@hourly")],
)
def test_a_change_of_timing_never_looks_back(definition: ScheduleDefinition) -> None:
    now = NOON + 1.5 * HOUR
    changed = put(make(HOURLY, NOON), definition, author=DEPLOY, now=now)
    assert created(fire(changed.record, now=now)) == []
    assert changed.record.decided_until == now


@pytest.mark.parametrize(
    "fields",
    [
        {"payload": {"doc": "d-2"}},
        {"jitter": MINUTE},
        {"catch_up": CatchUp.ALL},
        {"overlap": Overlap.SKIP},
        {"max_catch_up": 5},
    ],
)
def test_a_deploy_with_the_same_timing_does_not_lose_the_tick_it_slept_through(
    fields: dict[str, Any],
) -> None:
    changed = put(make(HOURLY, NOON), cron("0 * * * *", **fields), author=DEPLOY, now=NOON + HOUR)
    decision = fire(changed.record, now=NOON + HOUR + 2 * MINUTE)
    assert created(decision) == [NOON + HOUR]


def test_a_change_keeps_a_pause_and_what_is_unfinished() -> None:
    decided = fired(HOURLY, NOON + HOUR).record
    paused = pause(decided, PAUSED).record
    changed = put(paused, cron("*/20 * * * *"), author=ANN, now=NOON + 2 * HOUR).record
    assert (changed.paused, changed.unfinished) == (PAUSED, decided.unfinished)
    assert (changed.origin, changed.by) == (Origin.RUNTIME, "ann")
    assert changed.created_at == NOON


def test_a_schedule_that_has_ended_needs_no_alarm() -> None:
    decision = fired(cron("0 * * * *", end=NOON + HOUR), NOON + HOUR)
    assert created(decision) == [NOON + HOUR]
    assert decision.alarm_at is None
    assert fire(done(decision), now=NOON + DAY).record == done(decision)


def test_a_schedule_that_has_not_begun_waits_for_its_start() -> None:
    start = NOON + 10 * DAY
    decision = fired(cron("0 * * * *", start=start), NOON + DAY)
    assert (created(decision), decision.alarm_at) == ([], start)


# --- Triggers


def triggered(record: ScheduleRecord, job_id: str, now: datetime) -> Decision:
    decision = trigger(record, job_id, by="ann", now=now)
    assert isinstance(decision, Decision)
    return decision


@pytest.mark.parametrize("state", [PAUSED, None])
def test_a_trigger_creates_a_job_at_once_also_during_a_pause(state: Pause | None) -> None:
    record = make(HOURLY, NOON, paused=state)
    decision = triggered(record, "01MANUAL", NOON + MINUTE)
    [job] = decision.record.unfinished
    assert (job.job_id, job.tick, job.triggered, job.by) == (
        "01MANUAL",
        NOON + MINUTE,
        True,
        "ann",
    )
    assert decision.alarm_at == NOON + MINUTE
    assert decision.record.decided_until == record.decided_until


def test_the_same_trigger_twice_is_one_job() -> None:
    once = triggered(make(HOURLY, NOON), "01MANUAL", NOON + MINUTE)
    assert triggered(once.record, "01MANUAL", NOON + 2 * MINUTE) == once
    finished = done(once)
    again = triggered(finished, "01MANUAL", NOON + 3 * MINUTE)
    assert again.record == finished


def test_a_triggered_job_counts_for_overlap() -> None:
    record = done(triggered(make(cron("0 * * * *", overlap=Overlap.SKIP), NOON), "01M", NOON))
    assert record.previous_triggered == "01M"
    assert created(fire(record, now=NOON + HOUR, triggered=JobState.ACTIVE)) == []
    assert done(fire(record, now=NOON + HOUR)).previous_triggered is None, "it has ended"


def test_a_triggered_job_does_not_hide_the_one_of_the_last_tick() -> None:
    """The triggered job has ended, and the older one of the tick still runs."""
    record = done(fired(cron("0 * * * *", overlap=Overlap.SKIP), NOON + HOUR))
    record = done(triggered(record, "01M", NOON + HOUR + MINUTE))
    assert record.previous_job == record.last_job != "01M"
    active, over = JobState.ACTIVE, JobState.COMPLETED
    decision = fire(record, now=NOON + 2 * HOUR, previous=active, triggered=over)
    assert created(decision) == []


def test_a_tick_replaces_the_job_of_the_last_tick_and_the_triggered_one() -> None:
    record = done(fired(cron("0 * * * *", overlap=Overlap.REPLACE), NOON + HOUR))
    record = done(triggered(record, "01M", NOON + HOUR + MINUTE))
    waits = JobState.PENDING
    decision = fire(record, now=NOON + 2 * HOUR, previous=waits, triggered=waits)
    [job] = decision.record.unfinished
    assert [each.job_id for each in job.cancellations] == [record.last_job, "01M"]


def test_triggers_cannot_pile_up_without_end() -> None:
    record = make(HOURLY, NOON)
    for n in range(MAX_TRIGGERED):
        record = triggered(record, f"01M{n}", NOON).record
    assert isinstance(trigger(record, "01MORE", by=None, now=NOON), Refused)


# --- What is finished


def test_a_finished_job_is_not_created_again() -> None:
    decision = fired(HOURLY, NOON + HOUR)
    finished = done(decision)
    assert finished.unfinished == ()
    assert alarm_time(finished) == next_fire_time(finished) == NOON + 2 * HOUR
    assert alarm_time(decision.record) == NOON + HOUR


def test_a_job_that_cannot_be_created_is_dropped_with_its_reason() -> None:
    definition = cron("0 * * * *", catch_up=CatchUp.ALL)
    decision = fired(definition, NOON + 2 * HOUR)
    first, second = decision.record.unfinished
    record = finish(
        decision.record, [first.job_id], refused={second.job_id: "the key is busy"}, now=NOON
    )
    assert record.unfinished == ()
    assert [run.refused for run in record.runs] == [None, "the key is busy"]


def test_only_the_newest_decisions_are_kept() -> None:
    record = make(HOURLY, NOON)
    for n in range(1, 30):
        record = done(fire(record, now=NOON + n * HOUR))
    assert [run.tick for run in record.runs] == [NOON + n * HOUR for n in range(20, 30)]
