"""How many jobs were in which state at a past moment: as a fold of the log up to then says."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given as forall
from hypothesis import settings
from hypothesis import strategies as st

from jobs_admin.api.error_envelope import Invalid
from jobs_admin.api.errors import Invalid as Refused
from jobs_admin.api.views.history import StatsAtView
from jobs_admin.projection.ingest import Ingest
from jobs_admin.projection.store import Projection
from jobs_admin.reads.past_stats import stats_at
from jobs_admin.reads.readers import Readers
from tests.admin.admin_lab import AdminLab, until_projected
from tests.admin.made_log import BILLING, Scribe, logs, of, split
from tests.admin.past_lab import States, all_messages, states_before
from tests.given import NOON, REPORT, after, completed, created, started
from tests.support.example_service import Task
from trellis_jobs.jetstream.log.feed import LogFeed, LogMessage, LogPosition
from trellis_jobs.model.identity import JobAddress

A_FEW_FILES = settings(max_examples=40)
MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)
DAY = timedelta(days=1)


@asynccontextmanager
async def projected(
    folder: Path, batches: list[list[LogMessage]]
) -> AsyncIterator[tuple[Ingest, Readers]]:
    path = folder / "jobs.sqlite"
    async with Projection.open(path) as projection, Readers.open(path) as readers:
        ingest = Ingest(projection, LogPosition(created="the log"))
        for batch in batches:
            await ingest.apply(batch)
        yield ingest, readers


def states_of(view: StatsAtView) -> States:
    return {(each.service, each.type): each.states for each in view.types}


async def states_at(readers: Readers, moment: datetime) -> States:
    return states_of(await stats_at(readers, moment, now=moment + DAY))


@A_FEW_FILES
@forall(logs(), st.lists(st.integers(0, 60), max_size=4))
def test_every_past_minute_is_as_the_log_was_then(
    messages: list[LogMessage], cuts: list[int]
) -> None:
    async def compare(folder: Path) -> None:
        async with projected(folder, split(messages, cuts)) as (_, readers):
            end = messages[-1].stored_at if messages else NOON
            moment = NOON - MINUTE
            while moment <= end + 2 * MINUTE:
                assert await states_at(readers, moment) == states_before(messages, moment)
                moment += MINUTE

    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(compare(Path(folder)))


@A_FEW_FILES
@forall(logs(), st.sets(st.integers(0, 4)))
def test_jobs_that_retention_removed_are_counted_until_then(
    messages: list[LogMessage], removed: set[int]
) -> None:
    gone = {JobAddress(f"s{n % 2}", f"t{n % 3}", f"job-{n}") for n in removed}
    purged_at = (messages[-1].stored_at if messages else NOON) + 2 * HOUR

    async def compare(folder: Path) -> None:
        async def nothing_left(*_: object) -> list[LogMessage]:
            return []

        async with projected(folder, split(messages, [])) as (ingest, readers):
            up_to = dict.fromkeys(gone, len(messages))
            await ingest.forget(up_to, nothing_left, purged_at)
            moment = NOON
            while moment <= purged_at:
                assert await states_at(readers, moment) == states_before(messages, moment)
                moment += 7 * MINUTE
            names = [f".{job.job_id}." for job in gone]
            left = [each for each in messages if not any(name in each.subject for name in names)]
            moment = purged_at + MINUTE
            assert await states_at(readers, moment) == states_before(left, moment)

    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(compare(Path(folder)))


def long_log() -> Scribe:
    """A job in every hour and a half of forty days, each done half an hour later."""
    log = Scribe()
    for number in range(40 * 16):
        job = JobAddress("billing", "send", f"job-{number}")
        log.write(*of(job, created(), started())).later(1800).write(*of(job, completed()))
        log.later(3600)
    return log


async def test_minutes_are_kept_for_a_day_and_hours_for_thirty_days(tmp_path: Path) -> None:
    log = long_log()
    end = log.messages[-1].stored_at
    async with projected(tmp_path, split(log.messages, range(0, 2000, 300))) as (_, readers):
        for ago, resolution in ((HOUR, 1), (23 * HOUR, 1), (25 * HOUR, 60), (29 * DAY, 60)):
            at = end - ago - timedelta(seconds=10)
            told = await stats_at(readers, at, now=end)
            assert told.resolution_minutes == resolution
            assert timedelta() <= at - told.at < resolution * MINUTE
            assert states_of(told) == states_before(log.messages, told.at), ago
        with pytest.raises(Invalid, match="too long ago: changes of states are counted from"):
            await stats_at(readers, end - 32 * DAY, now=end)
        told = await stats_at(readers, end, now=end)
        assert told.earliest is not None
        oldest = await stats_at(readers, told.earliest, now=end)
        assert states_of(oldest) == states_before(log.messages, told.earliest)


async def test_the_future_is_not_known(tmp_path: Path) -> None:
    async with projected(tmp_path, []) as (_, readers):
        with pytest.raises(Invalid, match="in the future"):
            await stats_at(readers, after(120), now=NOON)


async def test_one_service_or_type_is_counted_alone(tmp_path: Path) -> None:
    log = Scribe().write(created(), *of(BILLING, created()))
    async with projected(tmp_path, [log.messages]) as (_, readers):
        later = after(60)
        of_service = await stats_at(readers, later, now=later, service="billing")
        of_type = await stats_at(readers, later, now=later, job_type=REPORT.job_type)
    assert [each.service for each in of_service.types] == ["billing"]
    assert [each.service for each in of_type.types] == ["documents"]
    assert of_type.states == {"pending": 1}


async def test_a_daemon_counts_as_its_log_does(lab: AdminLab) -> None:
    refs = [await lab.jobs.work.create(Task()) for _ in range(5)]
    await refs[0].cancel()
    feed = LogFeed(lab.stranger.connection)
    await until_projected(lab.daemon, (await feed.extent()).last_sequence)
    now = await lab.daemon.clock.now()
    messages = await all_messages(feed)
    for at in (now, now - MINUTE, now - 2 * HOUR, now + timedelta(seconds=50)):
        told = await lab.client.history.stats_at(at)
        assert timedelta() <= at - told.at < MINUTE
        assert states_of(told) == states_before(messages, told.at)
        assert told.complete_since is not None
    with pytest.raises(Refused, match="in the future"):
        await lab.client.history.stats_at(now + DAY)
