"""The chart of a job's runs: for every history, from milliseconds to weeks."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from itertools import pairwise

import orjson
from hypothesis import given

from jobs_admin.api.views.jobs import LogEntry
from jobs_admin.console.charts.gantt import (
    LEFT,
    MAX_BARS,
    WIDTH,
    Bar,
    gantt,
    span_words,
    stretch_of,
    width_of,
)
from jobs_admin.console.job.job_log import JobLog, LogPart, RunSpan, replay_log
from tests.given import (
    NOON,
    after,
    completed,
    created,
    dead,
    error,
    histories,
    retried,
    retry_scheduled,
    started,
)
from trellis_jobs.model import events as e
from trellis_jobs.model import subjects
from trellis_jobs.model.identity import JobAddress
from trellis_jobs.model.job_status import JobStatus
from trellis_jobs.model.reducer import Illegal, advance
from trellis_jobs.model.timeline import Phase, TimelineSpan
from trellis_jobs.model.values import replace
from trellis_jobs.wire import events as wire

LATER = NOON + timedelta(days=40)


def log_of(history: Iterable[e.Event], now: datetime = LATER) -> JobLog:
    """The log as the admin runtime sends it; each event was stored at its own time."""
    entries: list[LogEntry] = []
    status: JobStatus | None = None
    for sequence, event in enumerate(history, start=1):
        moved = advance(status, event)
        status = status if isinstance(moved, Illegal) else moved.recorded_at(sequence)
        body = orjson.loads(wire.encode(event, status or _status(event), None))
        subject = subjects.lifecycle(event.job, event.kind)
        entries.append(LogEntry(seq=sequence, subject=subject, stored_at=event.at, event=body))
    return replay_log(LogPart(tuple(entries), len(entries), len(entries), is_whole=True), now)


def _status(event: e.Event) -> JobStatus:
    moved = advance(None, created(job=event.job))
    assert isinstance(moved, JobStatus)
    return moved


def span(phase: Phase, length: timedelta, *, run: int = 1, begin: datetime = NOON) -> RunSpan:
    return RunSpan(run, TimelineSpan(phase, begin, begin + length), None, 1)


@given(histories())
def test_every_history_has_a_chart_within_its_bounds(history: list[e.Event]) -> None:
    log = log_of(history)
    chart = gantt(log.spans, LATER)
    assert len(chart.bars) + chart.omitted == len(log.spans)
    for bar in chart.bars:
        assert bar.x >= LEFT
        assert bar.x + bar.width <= WIDTH + 0.2
        assert bar.width > 0
        assert 0 < bar.y < chart.height
    for first, second in pairwise(chart.bars):
        assert second.y > first.y or second.x >= first.x + first.width - 0.2


def test_a_millisecond_and_a_week_are_both_readable() -> None:
    spans = [
        span(Phase.WAITING_FOR_WORKER, timedelta(milliseconds=1)),
        span(Phase.RUNNING, timedelta(weeks=3)),
    ]
    short, long = gantt(spans, LATER).bars
    assert short.time == "1 ms"
    assert long.time == "21 d"
    assert short.width < long.width < 10 * short.width


def test_the_same_time_has_the_same_width_on_both_sides_of_a_comparison() -> None:
    a = [span(Phase.RUNNING, timedelta(seconds=5))]
    b = [span(Phase.WAITING, timedelta(days=2)), span(Phase.RUNNING, timedelta(seconds=5))]
    stretch = stretch_of(a, b, now=LATER)
    left, right = (gantt(each, LATER, stretch=stretch).bars[-1] for each in (a, b))
    assert left.width == right.width


def test_a_wait_of_no_time_has_a_bar_that_can_be_seen() -> None:
    assert width_of(0) > 40
    assert width_of(-5) == width_of(0)


def test_runs_with_very_many_tries_continue_below_and_leave_out_the_oldest() -> None:
    spans = [span(Phase.RUNNING, timedelta(seconds=1)) for _ in range(MAX_BARS + 30)]
    chart = gantt(spans, LATER)
    assert chart.omitted == 30
    assert len({bar.y for bar in chart.bars}) > 1
    assert [label.text for label in chart.labels] == ["run 1"]


def test_an_event_is_marked_where_it_happened() -> None:
    log = log_of((created(at=NOON), started(at=after(10)), completed(at=after(20))))
    waiting, running = gantt(log.spans, LATER).bars

    def marked(at: datetime) -> float:
        mark = gantt(log.spans, LATER, at=at).mark
        assert mark is not None
        return mark.x

    assert marked(NOON) == waiting.x
    assert marked(after(10)) == running.x
    assert running.x < marked(after(15)) < running.x + running.width
    assert marked(NOON - timedelta(hours=1)) == waiting.x
    assert marked(LATER) == running.x + running.width
    assert gantt((), LATER, at=NOON).mark is None


def test_each_run_has_its_row_and_every_gap_its_name() -> None:
    lost = error(type="worker_death", message="gone")
    log = log_of(
        (
            created(at=NOON),
            started(at=after(1), app_version="1.4.2"),
            retry_scheduled(at=after(2), error=lost, next_attempt_at=after(7)),
            started(at=after(9), tries=2),
            dead(at=after(10), tries=2),
            retried(at=after(100)),
        )
    )
    now = after(130)
    words = [span_words(each, now) for each in log.spans]
    assert words == [
        "waited for a worker 1 s",
        "ran 1 s, interrupted: the worker died, try 1 on pod-7, version 1.4.2",
        "waited for the retry 5 s",
        "waited for a worker 2 s",
        "ran 1 s, try 2 on pod-7",
        "had ended 1 min 30 s",
        "waits for a worker, 30 s so far",
    ]
    assert [each.run for each in log.spans] == [1, 1, 1, 1, 1, 1, 2]
    bars: tuple[Bar, ...] = gantt(log.spans, now).bars
    assert bars[-1].y > bars[0].y
    assert [bar.is_interrupted for bar in bars].count(True) == 1
    assert "pod-7" in bars[1].caption


def test_a_job_has_no_bars_before_anything_takes_time() -> None:
    assert gantt((), LATER).bars == ()
    other = JobAddress("lab", "work", "x")
    assert log_of([replace(started(), job=other)]).spans == ()
