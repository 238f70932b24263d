"""What happened over time: events in steps, and how long attempts waited and ran."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given as forall
from hypothesis import strategies as st

from jobs_admin.api.error_envelope import Invalid
from jobs_admin.api.errors import Invalid as Refused
from jobs_admin.api.history_inputs import HistoryInput
from jobs_admin.api.views.history import DurationsView, HistoryView
from jobs_admin.projection.durations import BOUNDS, bucket_of
from jobs_admin.projection.ingest import Ingest
from jobs_admin.projection.store import Projection
from jobs_admin.reads.history import history
from jobs_admin.reads.percentiles import percentiles
from jobs_admin.reads.readers import Readers
from tests.admin.admin_lab import AdminLab, until_projected
from tests.admin.made_log import BILLING, Scribe, of
from tests.given import (
    NOON,
    REPORT,
    SECOND,
    after,
    cancelled,
    completed,
    created,
    retry_scheduled,
    started,
)
from tests.support.example_service import Task
from trellis_jobs.jetstream.log.feed import LogFeed, LogPosition
from trellis_jobs.model.identity import JobAddress

HOUR = timedelta(hours=1)
DAY = timedelta(days=1)


@asynccontextmanager
async def projected(folder: Path, log: Scribe) -> AsyncIterator[Readers]:
    path = folder / "jobs.sqlite"
    async with Projection.open(path) as projection, Readers.open(path) as readers:
        await Ingest(projection, LogPosition(created="the log")).apply(log.messages)
        yield readers


async def ask(readers: Readers, since: datetime, until: datetime, **more: Any) -> HistoryView:
    body = {"since": since, "until": until, **more}
    return await history(readers, HistoryInput.model_validate(body), now=until)


def buckets(durations: DurationsView | None) -> dict[float, int]:
    """How many attempts took at least how many milliseconds."""
    return {each.from_ms: each.attempts for each in durations.buckets} if durations else {}


async def test_events_are_counted_in_each_minute_and_each_hour(tmp_path: Path) -> None:
    log = Scribe().write(created()).later(60).write(started(), *of(BILLING, created()))
    log.later(3600).write(completed())
    async with projected(tmp_path, log) as readers:
        minutes = await ask(readers, after(0), after(150), stepMinutes=1)
        hours = await ask(readers, after(30), after(4000), stepMinutes=60)
        both = await ask(readers, after(-3600), after(4000), stepMinutes=120)
    assert minutes.events == {"created": (1, 1, 0), "started": (0, 1, 0)}
    assert (minutes.since, minutes.until) == (NOON, after(180))
    assert hours.events == {"created": (2, 0), "started": (1, 0), "completed": (0, 1)}
    assert (hours.since, hours.until) == (NOON, after(7200))
    assert both.step_minutes == 120
    assert [sum(numbers) for numbers in both.events.values()] == [1, 2, 1]


async def test_they_are_counted_for_each_queue_and_for_one(tmp_path: Path) -> None:
    log = Scribe().write(created(), started(), *of(BILLING, created())).later(5).write(completed())
    period = (after(0), after(60))
    async with projected(tmp_path, log) as readers:
        each = await ask(readers, *period, stepMinutes=1, perQueue=True)
        total = await ask(readers, *period, stepMinutes=1)
        of_service = await ask(readers, *period, service="billing")
        of_queue = await ask(readers, *period, service=REPORT.service, type=REPORT.job_type)
        unknown = await ask(readers, *period, service="unknown")
    assert each.events == total.events == {"completed": (1,), "created": (2,), "started": (1,)}
    assert (each.wait, each.run) == (total.wait, total.run)
    assert [(queue.service, queue.events["created"]) for queue in each.queues] == [
        ("billing", (1,)),
        ("documents", (1,)),
    ]
    assert each.queues[0].run is None
    assert each.queues[1].run == each.run
    assert total.queues == ()
    assert of_service.events == {"created": (1,)}
    assert of_queue.events == {"completed": (1,), "created": (1,), "started": (1,)}
    assert of_queue.run is not None
    assert of_queue.run.steps is not None
    assert unknown.events == {}


async def test_a_try_waits_from_when_it_is_due_and_runs_until_its_outcome(tmp_path: Path) -> None:
    log = Scribe().write(created()).later(2).write(started())
    # Its next try is due five seconds after this event, whatever time the worker's clock shows.
    log.later(10).write(retry_scheduled(at=after(2), next_attempt_at=after(7)))
    log.later(5.02).write(started(attempt=SECOND)).later(100).write(completed(attempt=SECOND))
    async with projected(tmp_path, log) as readers:
        told = await ask(readers, after(0), after(600))
    assert buckets(told.wait) == {16: 1, 1536: 1}
    assert buckets(told.run) == {8192: 1, 98304: 1}


async def test_a_job_that_never_started_neither_waited_nor_ran(tmp_path: Path) -> None:
    log = Scribe().write(created()).later(60).write(cancelled())
    async with projected(tmp_path, log) as readers:
        told = await ask(readers, after(0), after(600))
    assert told.events == {"cancelled": (1,), "created": (1,)}
    assert (told.wait, told.run) == (None, None)


async def test_durations_of_days_are_the_sum_of_their_hours(tmp_path: Path) -> None:
    log = Scribe()
    for number in range(100):
        job = JobAddress("billing", "send", f"job-{number}")
        log.write(*of(job, created())).later(number).write(*of(job, started()))
        log.later(3600)
    end = log.messages[-1].stored_at
    async with projected(tmp_path, log) as readers:
        whole = await ask(readers, NOON, end + HOUR)
        assert whole.wait is not None
        assert whole.wait.attempts == 100
        assert whole.wait.steps is not None
        assert len(whole.wait.steps.p50_ms) == len(whole.events["created"])
        each = await ask(readers, NOON, NOON + 60 * HOUR, perQueue=True)
        one = await ask(readers, NOON, NOON + 60 * HOUR, service="billing", type="send")
    assert buckets(each.queues[0].wait) == buckets(each.wait) == buckets(one.wait)


async def test_what_is_not_counted_any_more_is_refused(tmp_path: Path) -> None:
    log = Scribe().write(created()).later(40 * 86_400).write(started())
    end = log.messages[-1].stored_at
    async with projected(tmp_path, log) as readers:
        for since, until, step in (
            (end - 26 * HOUR, end - 25 * HOUR, 1),
            (end - 32 * DAY, end - 30 * DAY, 60),
        ):
            with pytest.raises(Invalid, match=r"are counted from .* on, and kept for"):
                await ask(readers, since, until, stepMinutes=step)
        days = await ask(readers, end - 30 * DAY, end + HOUR, stepMinutes=1440)
    assert days.events == {"started": (*[0] * 30, 1)}


async def test_the_number_of_steps_is_limited(lab: AdminLab) -> None:
    now = await lab.daemon.clock.now()
    ask_daemon = lab.client.history.events
    with pytest.raises(Refused, match="steps are too many, the limit is 360"):
        await ask_daemon(now - 7 * HOUR, now, step=timedelta(minutes=1))
    with pytest.raises(Refused, match="stepMinutes must be 1 or whole hours"):
        await ask_daemon(now - HOUR, now, step=timedelta(minutes=5))
    with pytest.raises(Refused, match="the time ends before it begins"):
        await ask_daemon(now, now - HOUR)


async def test_a_daemon_counts_what_its_log_has(lab: AdminLab) -> None:
    refs = await lab.jobs.work.create_many([Task()] * 7)
    await refs[0].cancel()
    feed = LogFeed(lab.stranger.connection)
    await until_projected(lab.daemon, (await feed.extent()).last_sequence)
    now = await lab.daemon.clock.now()
    for step in (timedelta(minutes=1), HOUR):
        told = await lab.client.history.events(now - HOUR, step=step, per_queue=True)
        counted = {kind: sum(numbers) for kind, numbers in told.events.items()}
        assert counted == {"created": 7, "cancelled": 1}
        [queue] = told.queues
        assert queue.events == told.events


@forall(st.lists(st.integers(0, 10**11), min_size=1), st.floats(0.01, 1))
def test_a_percentile_is_in_the_bucket_of_the_true_one(took: list[int], fraction: float) -> None:
    histogram = Counter(map(bucket_of, took))
    [estimated] = percentiles(histogram, [fraction])
    ordered = sorted(took)
    true = ordered[max(0, -int(-fraction * len(took) // 1) - 1)]
    low = BOUNDS[bucket_of(true) - 1] if bucket_of(true) else 0
    high = BOUNDS[min(bucket_of(true), len(BOUNDS) - 1)]
    assert low / 1000 <= estimated + 0.001
    assert estimated <= high / 1000 + 0.001


@forall(st.integers(0, 2**60))
def test_buckets_are_at_most_half_as_wide_as_they_are_far(took: int) -> None:
    bucket = bisect_right(BOUNDS, took)
    if 0 < bucket < len(BOUNDS):
        low, high = BOUNDS[bucket - 1], BOUNDS[bucket]
        assert low <= took < high
        assert high * 2 <= low * 3
