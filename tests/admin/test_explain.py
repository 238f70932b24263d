"""Why a job is where it is: the first thing that keeps it, said in one sentence."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from jobs_admin.api.reasons import Because
from jobs_admin.explain.explain import explain
from jobs_admin.explain.explanation import Explanation, Facts, Worker
from jobs_admin.explain.words import format_time, nth
from tests.given import (
    KEY,
    LEADING_TO,
    NOON,
    SECOND,
    after,
    created,
    dead,
    error,
    failed,
    job,
    key_state,
    retried,
    retry_scheduled,
    running,
    scheduled,
    slot,
    snoozed,
    started,
    waiting,
)
from trellis_jobs.jetstream.alarms.alarms_info import AlarmsInfo
from trellis_jobs.jetstream.work.consumer_info import PAUSE_REASON, PAUSED_BY, QueueConsumer
from trellis_jobs.model.concurrency import Concurrency
from trellis_jobs.model.durations import format_duration
from trellis_jobs.model.identity import JobAddress
from trellis_jobs.model.job_errors import Interruption, JobError
from trellis_jobs.model.retry import RetryPolicy
from trellis_jobs.model.schedules.address import ScheduleAddress, tick_job_id
from trellis_jobs.model.settlement import Snoozed, settle
from trellis_jobs.model.states import JobState
from trellis_jobs.model.values import replace as replace_fields

QUEUE = QueueConsumer(
    name="documents-render-report",
    at=NOON,
    subject="trellis.work.documents.render-report.*",
    delivered=0,
    pending=3,
    ack_pending=0,
    waiting_pulls=1,
    ack_wait=timedelta(seconds=30),
    delivery_limit=None,
    is_paused=False,
    pause_remaining=None,
)
WORKER = Worker("pod-7", after(9), slots=2)
FACTS = Facts(now=after(10), workers=(WORKER,), queue=QUEUE, has_work=True)
KEYED = created(concurrency=Concurrency(key="zendesk:acme:tickets", key_hash=KEY.hash))
OTHER = "01JQ0THER00000000000000000"


def why(*events: Any, **changes: Any) -> Explanation:
    return explain(job(*(events or (created(),))), replace(FACTS, **changes))


def test_no_worker_runs_its_queue() -> None:
    found = why(workers=())
    assert found.because is Because.NO_WORKER
    assert found.sentence == "No worker serves the queue documents/render-report."
    assert found.next == "a worker of service documents that handles render-report starts"


def test_a_worker_that_was_heard_of_lately_and_asks_for_nothing_is_none() -> None:
    found = why(queue=replace(QUEUE, waiting_pulls=0))
    assert found.because is Because.NO_WORKER
    assert "none pulls work" in found.sentence
    assert (
        why(queue=replace(QUEUE, waiting_pulls=0, ack_pending=1)).because is Because.ABOUT_TO_START
    )


def test_no_worker_ever_ran_its_queue() -> None:
    assert "there never was one" in why(workers=(), queue=None).sentence


def test_every_worker_is_busy() -> None:
    found = why(running=2)
    assert found.because is Because.WORKERS_BUSY
    assert "all 2 slots of the 1 workers" in found.sentence
    assert found.details == {"workers": 1, "places": 2, "running": 2, "queued": 3}


def test_a_worker_is_free_and_takes_it_soon() -> None:
    assert why(running=1).because is Because.ABOUT_TO_START


def test_no_message_stands_for_it() -> None:
    found = why(has_work=False)
    assert found.because is Because.WORK_LOST
    assert "reconciliation" in found.next


def test_its_queue_is_paused() -> None:
    paused = replace(QUEUE, is_paused=True, pause_remaining=timedelta(minutes=5))
    found = why(queue=paused, workers=())
    assert found.because is Because.QUEUE_PAUSED
    assert found.until == after(310)
    assert "until 2026-03-28T12:05:10Z" in found.sentence


def test_who_paused_its_queue_and_why_is_told() -> None:
    noted = {"metadata": {PAUSE_REASON: "the bank is down", PAUSED_BY: "ann"}}
    found = why(queue=replace(QUEUE, is_paused=True, config=noted))
    assert found.sentence == (
        "The queue documents/render-report is paused by ann until an operator resumes it: "
        "the bank is down."
    )
    assert found.details == {"pausedBy": "ann", "pauseReason": "the bank is down"}


def test_it_is_delayed() -> None:
    found = why(scheduled(run_at=after(3610)))
    assert found.because is Because.DELAYED
    assert found.until == after(3610)
    assert found.sentence == "It is delayed until 2026-03-28T13:00:10Z, which is in 1 h."
    assert found.next == "a worker of service documents releases it at that time"


def test_its_time_has_come_and_no_process_has_released_it() -> None:
    found = why(scheduled(run_at=after(5)))
    assert found.because is Because.OVERDUE
    assert found.sentence == "It was due 5 s ago, and no process has released it yet."
    assert found.next == (
        "a worker of service documents releases it, or the admin runtime reminds one of it"
    )


def test_who_moved_it_and_why_is_told() -> None:
    moved = scheduled(at=after(8), run_at=after(3610), by="ann", reason="the bank\nis closed")
    found = why(scheduled(), moved, moved=moved)
    assert found.sentence == (
        "It is delayed until 2026-03-28T13:00:10Z, which is in 1 h; ann moved it 2 s ago: the bank "
        "is closed."
    )
    assert found.details == {
        "movedBy": "ann",
        "movedAt": after(8),
        "moveReason": "the bank\nis closed",
    }


@pytest.mark.parametrize(
    ("alarms", "why_not", "then"),
    [
        (
            AlarmsInfo(has_stream=False),
            "the stream JOBS_ALARMS_documents, which reminds workers of delayed jobs, is missing",
            "an operator creates the stream: `trellis-jobs infra apply MODULE:SERVICE`",
        ),
        (
            AlarmsInfo(waiting=3),
            "no worker of service documents is up to release it",
            "a worker of service documents starts",
        ),
        (
            AlarmsInfo(waiting_pulls=1),
            "no worker has released it yet: its alarm is late or was lost",
            "the admin runtime publishes its alarm again half a minute after its time",
        ),
    ],
    ids=["stream missing", "no worker", "alarm lost"],
)
def test_why_an_overdue_job_does_not_start(alarms: AlarmsInfo, why_not: str, then: str) -> None:
    found = why(scheduled(run_at=after(5)), alarms=alarms)
    assert (found.because, found.since) == (Because.OVERDUE, after(5))
    assert found.sentence == f"It was due 5 s ago, and {why_not}."
    assert found.next.startswith(then)


def test_a_delayed_job_past_its_deadline_only_waits_for_its_end() -> None:
    found = why(scheduled(run_at=after(5), deadline=after(6)))
    assert found.because is Because.PAST_DEADLINE


def test_the_schedule_that_created_it_is_named_with_its_tick() -> None:
    nightly = ScheduleAddress("documents", "render-report", "nightly")
    begun = created(
        job=JobAddress("documents", "render-report", tick_job_id(nightly, NOON)),
        schedule="nightly",
        run_at=NOON,
    )
    found = why(begun)
    told = f" It was created by schedule nightly for the tick {format_time(NOON)}."
    assert found.sentence.endswith(told)
    assert found.details["schedule"] == "nightly"
    moved = explain(job(replace_fields(begun, run_at=after(3600))), FACTS)
    assert moved.sentence.endswith(told), "its id still has the tick"


def test_a_triggered_job_is_not_said_to_have_a_tick() -> None:
    found = why(created(schedule="nightly", run_at=NOON))
    assert found.sentence.endswith(" It was created by schedule nightly, which someone triggered.")


def test_a_strange_name_of_a_schedule_is_shown_as_it_is() -> None:
    found = why(created(schedule="not a\nname", run_at=NOON))
    assert "schedule not a name, which" in found.sentence


def test_its_next_try_is_due_later() -> None:
    found = why(created(), started(), retry_scheduled(next_attempt_at=after(40)))
    assert found.because is Because.RETRY_LATER
    assert found.until == after(40)
    assert found.sentence == (
        "Try 1 of 3 failed (HTTPError: 503 from upstream); the next try is due in 30 s."
    )
    assert found.details["errors"][0]["message"] == "503 from upstream"


def test_its_handler_snoozed_it() -> None:
    again = (started(attempt=SECOND), snoozed(attempt=SECOND, next_attempt_at=after(40)))
    found = why(created(), started(), snoozed(), *again)
    assert found.because is Because.SNOOZED
    assert (found.until, found.details["snoozes"]) == (after(40), 2)
    assert found.sentence == (
        "Its handler snoozed it until 2026-03-28T12:00:40Z, for the 2nd time: the bank is closed."
    )
    assert found.next == "a worker runs it again in 30 s"


def test_it_was_snoozed_past_its_deadline() -> None:
    found = why(created(deadline=after(62)), started(), snoozed())
    assert found.because is Because.SNOOZED
    assert found.sentence == (
        "Its handler snoozed it until its deadline (2026-03-28T12:01:02Z), for the 1st time: "
        "the bank is closed."
    )
    assert found.next == "it expires at that time"


def test_a_snooze_that_is_over_waits_for_a_worker_like_any_other_job() -> None:
    over = (created(), started(), snoozed(next_attempt_at=after(7)))
    assert why(*over).because is Because.ABOUT_TO_START
    assert why(*over, workers=()).because is Because.NO_WORKER


def test_a_try_that_failed_after_a_snooze_is_a_failure() -> None:
    then = (started(attempt=SECOND), retry_scheduled(attempt=SECOND, next_attempt_at=after(40)))
    assert why(created(), started(), snoozed(), *then).because is Because.RETRY_LATER


def test_a_snooze_that_was_one_too_many_says_what_to_do() -> None:
    policy = RetryPolicy(3, (), max_snoozes=1)
    outcome = Snoozed(snoozed().error, after(60))
    end = settle(outcome, running(policy=policy, snoozes=1), at=after(2), random=0).event
    found = why(created(), started(), snoozed(), started(), end)
    assert found.because is Because.FAILED
    assert "snoozes_exhausted: the handler snoozed the job again after 1 snoozes" in found.sentence


def test_a_snooze_on_the_last_delivery_says_what_to_do() -> None:
    outcome = Snoozed(snoozed().error, after(60))
    end = settle(outcome, running(is_last_delivery=True), at=after(2), random=0).event
    found = why(created(), started(), end)
    assert found.because is Because.DELIVERIES_EXHAUSTED
    assert "raise the queue's delivery_limit" in found.sentence


@pytest.mark.parametrize(
    ("number", "words"),
    [
        *((1, "1st"), (2, "2nd"), (3, "3rd"), (4, "4th")),
        *((11, "11th"), (12, "12th"), (13, "13th"), (111, "111th")),
        *((21, "21st"), (22, "22nd"), (103, "103rd"), (1000, "1000th")),
    ],
)
def test_numbers_are_counted_as_people_do(number: int, words: str) -> None:
    assert nth(number) == words


def test_a_try_that_is_due_waits_for_a_worker_like_any_other() -> None:
    due = (created(), started(), retry_scheduled(next_attempt_at=after(7)))
    assert why(*due).because is Because.ABOUT_TO_START
    assert why(*due, workers=()).because is Because.NO_WORKER


def test_its_key_is_held_and_by_whom() -> None:
    held = key_state(active=(slot(OTHER),), queued=(waiting(OTHER), waiting()))
    found = why(KEYED, key=held)
    assert found.because is Because.WAITING_FOR_KEY
    assert found.until == slot().expires_at
    assert f"has been held by job {OTHER} on pod-7 since 2026-03-28T12:00:01Z" in found.sentence
    assert "number 2 of 2" in found.sentence
    assert found.details["holders"][0]["jobId"] == OTHER
    assert found.details["place"] == 2


def test_its_key_is_held_by_a_job_whose_lease_is_over() -> None:
    held = key_state(active=(slot(OTHER, expires_at=after(4)),))
    found = why(KEYED, key=held, expired=frozenset({held.active[0].token}))
    assert found.because is Because.KEY_BLOCKED
    assert "whose lease expired 6 s ago" in found.sentence
    assert "releases it" in found.next


@pytest.mark.parametrize("active", [(), (slot(),)])
def test_a_key_that_is_free_or_its_own_keeps_no_job_waiting(active: tuple[Any, ...]) -> None:
    assert why(KEYED, key=key_state(active=active)).because is Because.ABOUT_TO_START


@pytest.mark.parametrize("events", [(), (created(deadline=after(5)), started())])
def test_its_deadline_has_passed(events: tuple[Any, ...]) -> None:
    found = why(*(events or (created(deadline=after(5)),)))
    assert found.because is Because.PAST_DEADLINE
    assert "its deadline passed 5 s ago" in found.sentence.replace("Its", "its")


def test_it_runs_and_where_and_since_when() -> None:
    found = why(created(deadline=after(60)), started(), owner_seen_at=after(9))
    assert found.because is Because.RUNNING
    assert (
        found.sentence == "Try 1 of 3 has been running on worker pod-7 since 2026-03-28T12:00:01Z."
    )
    assert found.until == after(60)


def test_it_runs_but_its_worker_is_gone() -> None:
    gone = {"owner_is_present": False, "owner_seen_at": after(-110)}
    found = why(created(), started(), **gone)
    assert found.because is Because.WORKER_GONE
    assert "was last seen 2 min ago" in found.sentence
    assert "within 30 s" in found.next


def test_its_worker_is_gone_and_so_is_its_message() -> None:
    """Nothing is there to be delivered again."""
    gone = {"owner_is_present": False, "owner_seen_at": after(-110), "has_work": False}
    found = why(created(), started(), **gone)
    assert found.because is Because.WORK_LOST
    assert "was last seen 2 min ago, and it has no message" in found.sentence
    assert "reconciliation" in found.next


@pytest.mark.parametrize(
    ("limit", "because"), [(None, Because.ABOUT_TO_START), (2, Because.MAY_BE_GIVEN_UP)]
)
def test_a_job_that_was_delivered_before_may_be_given_up(
    limit: int | None, because: Because
) -> None:
    queue = replace(QUEUE, delivery_limit=limit)
    assert why(created(), queue=queue, was_delivered=True).because is because
    assert why(created(), queue=queue).because is Because.ABOUT_TO_START


@pytest.mark.parametrize(
    ("state", "because", "words"),
    [
        (JobState.COMPLETED, Because.COMPLETED, "It completed on try 1 of 3 in 1 s."),
        (
            JobState.FAILED,
            Because.FAILED,
            "It failed on try 1 and will not be retried: BadFile: not a PDF.",
        ),
        (JobState.CANCELLED, Because.CANCELLED, "It was cancelled by documents: not needed."),
        (JobState.EXPIRED, Because.EXPIRED, "passed before it started."),
        (JobState.SKIPPED, Because.REPLACED, "dropped it: replace-oldest."),
        (JobState.STALE, Because.LEASE_LOST, "stale: the key lease expired."),
        (JobState.DEAD, Because.OUT_OF_TRIES, "the last error was HTTPError: 503 from upstream."),
        (JobState.DISMISSED, Because.DISMISSED, "was dismissed by ann: known outage."),
    ],
)
def test_how_it_ended(state: JobState, because: Because, words: str) -> None:
    found = explain(job(*LEADING_TO[state]), FACTS)
    assert found.because is because
    assert words in found.sentence


def test_an_expired_job_gives_its_reason_once() -> None:
    found = explain(job(*LEADING_TO[JobState.EXPIRED]), FACTS)
    assert found.details == {"by": "worker"}


def test_a_dead_job_says_after_how_many_tries_and_what_an_operator_may_do() -> None:
    found = why(created(), started(tries=3), dead(tries=3))
    assert "dead after 3 of 3 tries" in found.sentence
    assert "`trellis-jobs dlq replay 01JQEXAMP1E0000000000000AA`" in found.next


@pytest.mark.parametrize(
    ("tries", "why_it_died"),
    [
        (1, error(type=Interruption.DELIVERIES_EXHAUSTED, message="delivered 5 times")),
        (3, error(type=Interruption.DELIVERIES_EXHAUSTED, message="delivered 5 times")),
        (1, error(message="on the last delivery")),
    ],
)
def test_a_job_that_died_of_its_delivery_limit_was_not_out_of_tries(
    tries: int, why_it_died: JobError
) -> None:
    found = why(created(), started(tries=tries), dead(tries=tries, error=why_it_died))
    assert found.because is Because.DELIVERIES_EXHAUSTED
    assert f"reached its delivery limit after {tries} of 3 tries" in found.sentence
    assert why_it_died.message in found.sentence
    assert "`trellis-jobs dlq replay 01JQEXAMP1E0000000000000AA`" in found.next


def test_who_retried_a_job_is_not_who_ended_it() -> None:
    again = (created(), started(), failed(), retried(by="ann"), started(), failed())
    assert why(*again).details["by"] is None
    assert job(*again).run.begun_by == "ann"


@pytest.mark.parametrize("state", JobState)
def test_every_state_is_explained_in_one_sentence(state: JobState) -> None:
    found = explain(job(*LEADING_TO[state]), Facts(now=NOON))
    assert found.sentence.endswith(".")
    assert "\n" not in found.sentence
    assert found.next


def test_an_error_of_many_lines_is_told_in_one() -> None:
    told = "Traceback:\n  line 1\n\tline 2\n" + "x" * 1_000
    found = why(created(), started(), failed(error=error(message=told)))
    assert "\n" not in found.sentence
    assert len(found.sentence) < 300
    assert found.details["errors"][0]["message"] == told


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0, "0 ms"),
        (0.0421, "42 ms"),
        (0.0042, "4.2 ms"),
        (5, "5 s"),
        (2.04, "2 s"),
        (3.25, "3.2 s"),
        (59, "59 s"),
        (60, "1 min"),
        (61, "1 min 1 s"),
        (3_600, "1 h"),
        (3_661, "1 h 1 min"),
        (86_400, "1 d"),
        (100_000, "1 d 3 h"),
        (-5, "0 ms"),
    ],
)
def test_how_long_is_said_in_one_unit_or_two(seconds: float, words: str) -> None:
    assert format_duration(timedelta(seconds=seconds)) == words
