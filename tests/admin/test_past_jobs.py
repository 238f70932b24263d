"""The jobs that were in a state at a past moment, as they were then."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given as forall
from hypothesis import settings
from hypothesis import strategies as st

from jobs_admin.api.errors import Invalid
from jobs_admin.api.views.history import PastCursor
from jobs_admin.projection.ingest import Ingest
from jobs_admin.projection.store import Projection
from jobs_admin.reads.past_candidates import PastCandidate, PastFilter, past_candidates
from jobs_admin.reads.past_jobs import MAX_EXAMINED
from jobs_admin.reads.readers import Readers
from tests.admin.admin_lab import AdminLab, until_projected
from tests.admin.made_log import logs
from tests.admin.past_lab import all_messages, jobs_at
from tests.given import NOON
from tests.support.example_service import Task
from trellis_jobs.jetstream.log.feed import LogFeed, LogMessage, LogPosition
from trellis_jobs.model.identity import JobAddress
from trellis_jobs.model.states import JobState

A_FEW_FILES = settings(max_examples=40)
SECOND = timedelta(seconds=1)


async def candidates(readers: Readers, wanted: PastFilter, page: int) -> list[PastCandidate]:
    """All of them, in pages."""
    found: list[PastCandidate] = []
    after: PastCursor | None = None
    while True:
        async with readers.snapshot() as database:
            some = await past_candidates(database, wanted, after, page)
        found += some
        if len(some) < page:
            return found
        after = some[-1].cursor


@A_FEW_FILES
@forall(logs(), st.integers(1, 4), st.integers(0, 300), st.sampled_from(JobState))
def test_no_job_that_was_in_the_state_is_missed(
    messages: list[LogMessage], page: int, seconds: int, state: JobState
) -> None:
    """And each is a candidate once, unless it had not begun."""
    moment = NOON + seconds * SECOND
    then = jobs_at(messages, moment)
    expected = {address for address, job in then.items() if job.state is state}

    async def compare(folder: Path) -> None:
        path = folder / "jobs.sqlite"
        async with Projection.open(path) as projection, Readers.open(path) as readers:
            ingest = Ingest(projection, LogPosition(created="the log"))
            if messages:
                await ingest.apply(messages)
            found = await candidates(readers, PastFilter(moment, [state]), page)
            addresses = [each.address for each in found]
            assert len(set(addresses)) == len(addresses)
            assert expected <= set(addresses) <= set(then)
            unchanged = {each.address for each in found if not each.has_changed}
            assert unchanged <= expected

    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(compare(Path(folder)))


async def listed(
    lab: AdminLab, moment: datetime, state: Sequence[JobState] | None = None, page: int = 100
) -> dict[JobAddress, tuple[JobState, datetime]]:
    found = [job async for job in lab.client.history.jobs_at(moment, state=state, page=page)]
    by_address = {
        JobAddress(job.service, job.type, job.id): (job.state, job.updated_at) for job in found
    }
    assert len(by_address) == len(found)
    return by_address


async def some_history(lab: AdminLab) -> list[LogMessage]:
    """Of jobs that wait, were cancelled, or were moved to another time."""
    refs = [await lab.jobs.work.create(Task(text=str(n))) for n in range(4)]
    await refs[0].cancel()
    await lab.client.cancel(refs[1].id, reason="too late")
    await lab.jobs.work.create(Task())
    later = await lab.jobs.work.create(Task(), delay=3600)
    await lab.client.run_now(later.id)
    feed = LogFeed(lab.stranger.connection)
    await until_projected(lab.daemon, (await feed.extent()).last_sequence)
    return await all_messages(feed)


async def test_a_daemon_lists_the_jobs_of_every_past_moment(lab: AdminLab) -> None:
    messages = await some_history(lab)
    first = messages[0].stored_at - SECOND
    for moment in (first, *(message.stored_at for message in messages)):
        then = {
            address: (job.state, job.updated_at)
            for address, job in jobs_at(messages, moment).items()
        }
        assert await listed(lab, moment) == then
        for state in (JobState.PENDING, JobState.CANCELLED, JobState.SCHEDULED):
            expected = {address: found for address, found in then.items() if found[0] is state}
            assert await listed(lab, moment, [state], page=2) == expected


async def test_a_request_examines_a_limited_number_of_jobs(lab: AdminLab) -> None:
    """All of them changed since, and none was dead."""
    refs = await lab.jobs.work.create_many([Task()] * (MAX_EXAMINED + 30))
    moment = await lab.daemon.clock.now()
    await asyncio.gather(*(ref.cancel() for ref in refs))
    feed = LogFeed(lab.stranger.connection)
    await until_projected(lab.daemon, (await feed.extent()).last_sequence)
    ask, dead = lab.client.history.list_at, [JobState.DEAD]
    first = await ask(moment, state=dead)
    assert (first.entries, first.examined) == ((), MAX_EXAMINED)
    rest = await ask(moment, state=dead, after=first.next_after)
    assert (rest.entries, rest.examined, rest.next_after) == ((), 30, None)
    assert len(await listed(lab, moment, [JobState.PENDING])) == len(refs)


async def test_only_the_jobs_of_one_queue_are_listed(lab: AdminLab) -> None:
    messages = await some_history(lab)
    moment = messages[-1].stored_at
    all_jobs = await lab.client.history.list_at(moment)
    job = all_jobs.entries[0]
    of_queue = await lab.client.history.list_at(moment, service=job.service, type=job.type)
    assert len(of_queue.entries) == len(all_jobs.entries)
    assert (await lab.client.history.list_at(moment, type="unknown")).entries == ()


async def test_the_future_is_not_listed(lab: AdminLab) -> None:
    now = await lab.daemon.clock.now()
    with pytest.raises(Invalid, match="in the future"):
        await lab.client.history.list_at(now + timedelta(hours=1))
