"""One event in words: what it says, what rides on it, and how long things took."""

from __future__ import annotations

import pytest

from jobs_admin.explain.event_words import event_name, event_words
from tests.given import (
    SECOND,
    after,
    cancelled,
    completed,
    created,
    dead,
    log,
    logged,
    notes,
    retried,
    retry_scheduled,
    snoozed,
    started,
)
from trellis_jobs.model.events import Event
from trellis_jobs.model.job import Entry, fold
from trellis_jobs.model.notes import Progress

SAID = notes("opening", "closing", progress=Progress(current=2, total=2, step="pages"))


@pytest.mark.parametrize(
    ("event", "words"),
    [
        (started(notes=SAID), "try 1; opening; closing; 2/2 pages"),
        (completed(notes=SAID), "1 try; opening; closing; 2/2 pages"),
        (
            retry_scheduled(notes=notes("opening")),
            "in 5 s: HTTPError: 503 from upstream; opening",
        ),
        (snoozed(notes=notes("opening")), "for 1 min: the bank is closed; opening"),
        (snoozed(next_attempt_at=None), "for 0 ms: the bank is closed"),
        (logged(), "page 2 done"),
    ],
)
def test_what_a_handler_said_is_told_with_the_event_that_carries_it(
    event: Event, words: str
) -> None:
    assert event_words(event) == words


@pytest.mark.parametrize(
    ("event", "words"),
    [
        (retried(by="ann", reason="the bank is back"), "by ann: the bank is back; "),
        (retried(by="ann", reason=None), "by ann; {"),
        (retried(by=None, reason=None), "{"),
        (cancelled(by="ann", reason="not needed"), "by ann: not needed"),
        (cancelled(by=None, reason="not needed"), "not needed"),
    ],
)
def test_what_an_operator_did_is_told_with_who_it_was_and_why(event: Event, words: str) -> None:
    assert event_words(event).startswith(words)


def test_a_snooze_is_called_so_and_has_its_number() -> None:
    job = fold(log(created(), started(), snoozed()))
    assert event_name(snoozed()) == "snoozed"
    assert event_name(retry_scheduled()) == "retry"
    assert event_words(snoozed(), job) == "for 1 min, snooze 1: the bank is closed"


def test_a_retry_that_is_soon_is_told_in_milliseconds() -> None:
    assert event_words(retry_scheduled(next_attempt_at=after(2.038))).startswith("in 38 ms: ")


def test_how_long_a_job_took_is_counted_from_the_beginning_of_its_run() -> None:
    end = completed(at=after(100.038), attempt=SECOND)
    history = (created(), started(), dead(), retried(at=after(100)), started(attempt=SECOND), end)
    job = fold(Entry(number, event) for number, event in enumerate(history, start=1))
    assert event_words(end, job) == "in 38 ms, 1 try"
