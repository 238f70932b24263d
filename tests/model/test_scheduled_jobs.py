"""A job may exist before it may run: it waits for its time, and no worker can start it."""

from __future__ import annotations

import pytest

from tests.given import (
    CONTEXT,
    REPORT,
    after,
    created,
    error,
    failed,
    job,
    log,
    progressed,
    retried,
    retry_scheduled,
    scheduled,
    stale_completion_ignored,
    started,
    status,
)
from trellis_jobs.model.delivery_decision import DeliveryRef, Discard, decide
from trellis_jobs.model.events import Scheduled
from trellis_jobs.model.job import Entry, fold
from trellis_jobs.model.reducer import Illegal, advance
from trellis_jobs.model.states import JobState
from trellis_jobs.model.timeline import LogRecord, Phase, TimelineSpan, timeline
from trellis_jobs.wire.events import decode, encode


def test_a_scheduled_job_waits_for_its_time() -> None:
    waiting = job(scheduled(run_at=after(60), deadline=after(90)))
    assert (waiting.state, waiting.is_over, waiting.tries) == (JobState.SCHEDULED, False, 0)
    assert (waiting.status.next_attempt_at, waiting.run.run_at) == (after(60), after(60))
    assert waiting.deadline == after(90)


def test_no_worker_can_start_it() -> None:
    assert isinstance(advance(status(scheduled()), started()), Illegal)


def test_its_release_is_the_beginning_of_its_only_run() -> None:
    released = job(scheduled(run_at=after(60)), created(at=after(61), run_at=after(60)))
    assert (released.state, released.status.next_attempt_at) == (JobState.PENDING, None)
    assert (released.created_at, released.run.began_at) == (scheduled().at, after(61))
    assert (released.run.run_at, released.earlier_runs) == (after(60), ())
    assert released.status.run == log(scheduled(), created())[1].sequence


def test_it_can_be_moved_to_another_time() -> None:
    moved = job(scheduled(run_at=after(60)), scheduled(at=after(1), run_at=after(600), by="ann"))
    assert (moved.state, moved.status.next_attempt_at) == (JobState.SCHEDULED, after(600))
    assert moved.created_at == scheduled().at


@pytest.mark.parametrize("then", [scheduled(at=after(3), tries=1), created(at=after(3), tries=1)])
def test_a_job_that_waits_for_its_next_try_keeps_what_its_tries_left(then: Scheduled) -> None:
    history = [created(), started(), progressed(), retry_scheduled()]
    before, moved = job(*history), job(*history, then)
    assert moved.tries == 1
    assert moved.errors == before.errors == (error(),)
    assert moved.progress == before.progress is not None
    assert moved.run.instance == before.run.instance is not None
    assert moved.earlier_runs == ()


def test_a_retried_job_that_is_moved_names_the_operator_and_its_earlier_run() -> None:
    moved = job(created(), started(), failed(), retried(by="ann"), scheduled(at=after(10)))
    assert moved.run.begun_by == "ann"
    assert [run.errors for run in moved.earlier_runs] == [(failed().error,)]


def test_the_work_message_from_before_it_was_moved_is_dropped() -> None:
    first = log(created())[0].sequence
    delivered = DeliveryRef("41:1", 2, first)
    for history in ([scheduled()], [scheduled(), created()]):
        newest = status(created(), started(), retry_scheduled(), *history)
        assert decide(newest, delivered, now=after(9)) == Discard(
            "the message belongs to another run of the job"
        )


def test_a_note_about_it_tells_the_next_writer_its_time() -> None:
    waiting = status(scheduled(run_at=after(60)))
    note = stale_completion_ignored(tries=0)
    data = encode(note, waiting, waiting.state)
    read = decode(data, expected=REPORT, sequence=99)
    assert isinstance(read, Entry)
    assert read.status == waiting


def test_its_time_and_who_moved_it_are_in_the_log() -> None:
    moved = scheduled(run_at=after(60), by="ann", reason="the bank is closed", request="01JQ")
    read = decode(encode(moved, status(moved), None), expected=REPORT, sequence=11)
    assert isinstance(read, Entry)
    assert (read.event, read.status) == (moved, status(moved))


def test_the_time_is_in_its_release_too() -> None:
    release = created(run_at=after(60))
    read = decode(encode(release, status(release), None), expected=REPORT, sequence=11)
    assert isinstance(read, Entry)
    assert read.event == release


def test_the_timeline_shows_how_long_it_was_delayed() -> None:
    history = [scheduled(run_at=after(60)), created(at=after(60), context=CONTEXT)]
    records = [LogRecord(entry.sequence, entry.event.at, entry) for entry in log(*history)]
    assert fold(record.read for record in records if isinstance(record.read, Entry)) is not None
    spans = [part for part in timeline(records, after(61)) if isinstance(part, TimelineSpan)]
    assert spans[0] == TimelineSpan(Phase.DELAYED, scheduled().at, after(60), until=after(60))
    assert spans[1].phase is Phase.WAITING_FOR_WORKER
