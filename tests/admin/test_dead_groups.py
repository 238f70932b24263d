"""What jobs died of, by queue and error."""

from __future__ import annotations

import asyncio
import sqlite3
from collections import defaultdict
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jobs_admin.api.errors import QueryTimeout
from jobs_admin.api.job_filter import JobFilter
from jobs_admin.api.views.dead_groups import DeadGroupView
from jobs_admin.api.views.operations import OperationVerb
from jobs_admin.projection.error_patterns import pattern_of
from jobs_admin.projection.ingest import Ingest
from jobs_admin.projection.rows import microseconds
from jobs_admin.projection.store import Projection
from jobs_admin.reads import jobs as reads
from jobs_admin.reads.dead_groups import dead_groups
from jobs_admin.reads.readers import Readers
from tests.admin.admin_lab import AdminLab, until_shown
from tests.admin.made_log import Scribe, split
from tests.given import (
    after,
    created,
    dead,
    dismissed,
    error,
    retried,
    stale_completion_ignored,
    started,
)
from tests.support.example_service import Task
from tests.support.lab import dead_jobs
from trellis_jobs.jetstream.log.feed import LogMessage, LogPosition
from trellis_jobs.model.identity import JobAddress
from trellis_jobs.model.states import JobState

SAME = [
    ("KeyError: 'customer'", "KeyError: 'order'"),
    ("OSError: no route to 10.0.0.7:5432", "OSError: no route to 10.0.12.250:6432"),
    ("Gone: 550e8400-e29b-41d4-a716-446655440000", "Gone: 0f8fad5b-d9cb-469f-a165-70867728950e"),
    ("Gone: job 01M7JEEZVJZST3QAV997TP99RY", "Gone: job 01M7JE66KJRSDQGGFE7CRVT7NX"),
    ("Slow: 1,234.5 ms at 0x7f3a9c", "Slow: 17 ms at 0x55d0"),
    ("HTTPError: 503 for /orders/17", "HTTPError: 503  for\n/orders/4711"),
    ('ValueError: "a b" is no name', "ValueError: `c` is no name"),
    ("Full: disk of pod-7f9c8", "Full: disk of pod-12"),
]
DIFFERENT = [
    ("HTTPError: 503 for order 1", "HTTPError: 404 for order 1"),
    ("Refused: HTTP status 502", "Refused: HTTP status 429"),
    ("KeyError: 'a'", "IndexError: 'a'"),
    ("it won't open, and can't close", "it won't start, and can't close"),
]


@pytest.mark.parametrize(("one", "other"), SAME)
def test_what_differs_only_in_values_is_one_error(one: str, other: str) -> None:
    assert pattern_of(one) == pattern_of(other)
    assert "*" in pattern_of(one)


@pytest.mark.parametrize(("one", "other"), DIFFERENT)
def test_what_a_server_answered_and_words_tell_errors_apart(one: str, other: str) -> None:
    assert pattern_of(one) != pattern_of(other)


async def _die(lab: AdminLab, *errors: str) -> list[str]:
    ids = await dead_jobs(lab.url, *errors)
    await until_shown(lab.client, ids, JobState.DEAD)
    return ids


async def test_dead_jobs_are_grouped_by_what_killed_them_the_most_frequent_first(
    lab: AdminLab,
) -> None:
    died = ("503 for order 2", "Order 'a' is GONE", "503 for order 1", "503 for order 3")
    ids = await _die(lab, *died)
    await lab.jobs.work.create(Task())
    jobs = [await lab.client.get(each) for each in ids]
    found = await lab.client.group_dead()
    assert (found.count, found.jobs, found.next_offset) == (2, 4, None)
    often, once = found.entries
    assert (often.service, often.type, often.jobs) == ("lab", "single", 3)
    assert often.error == "RuntimeError: 503 for order *"
    assert often.example_id == ids[3]
    assert (often.oldest_at, often.newest_at) == (jobs[0].completed_at, jobs[3].completed_at)
    assert (once.error, once.jobs) == ("RuntimeError: Order * is GONE", 1)
    of_group = await lab.client.list_jobs(JobFilter(error_group=often.group))
    assert [job.id for job in of_group.entries] == [ids[3], ids[2], ids[0]]
    assert (await lab.client.preview(OperationVerb.REPLAY, JobFilter(error_group=once.group))).count
    assert (await lab.client.group_dead(JobFilter(error_group=often.group))).jobs == 3


async def test_groups_are_of_the_jobs_that_a_filter_wants_and_come_in_pages(lab: AdminLab) -> None:
    ids = await _die(lab, "disk of order 1 is full", "no route", "disk of order 2 is full")
    full = await lab.client.group_dead(JobFilter(error="IS FULL"))
    assert [(group.jobs, group.example_id) for group in full.entries] == [(2, ids[2])]
    assert (await lab.client.group_dead(JobFilter(payload={"text": "no route"}))).jobs == 1
    assert (await lab.client.group_dead(JobFilter(service="unknown"))).count == 0
    first = await lab.client.group_dead(limit=1)
    assert (len(first.entries), first.count, first.jobs, first.next_offset) == (1, 2, 3, 1)
    [second] = (await lab.client.group_dead(limit=1, offset=1)).entries
    assert second.example_id == ids[1]


QUEUES = [("billing", "send"), ("billing", "print"), ("shop", "send")]
KILLED_BY = [
    "503 for order 1",
    "503 for order 22",
    "no ROUTE",
    "no  route",
    "disk 'a' full",
    "disk 'b' full",
    "no disk01JZ",
    "no Route02KX",
]


@st.composite
def deaths(draw: st.DrawFn) -> list[LogMessage]:
    """Jobs that die, of which some run again, are dismissed, or get a note afterwards."""
    scribe = Scribe()
    for number in range(draw(st.integers(1, 12))):
        job = JobAddress(*draw(st.sampled_from(QUEUES)), f"job-{number}")
        minute = 60.0 * draw(st.integers(0, 45) | st.integers(0, 3000))
        of_job = {"job": job, "at": after(minute)}
        version = draw(st.sampled_from([None, "v1", "v2"]))
        killed = error(message=draw(st.sampled_from(KILLED_BY)))
        scribe.write(
            created(**of_job), started(**of_job, app_version=version), dead(**of_job, error=killed)
        )
        then = draw(st.sampled_from([None, None, "again", "dismissed", "noted"]))
        if then == "again":
            scribe.write(retried(**of_job))
        elif then == "dismissed":
            scribe.write(dismissed(**of_job))
        elif then == "noted":
            later = of_job | {"at": after(minute + 900)}
            scribe.write(stale_completion_ignored(**later))
    return scribe.messages


minutes = st.integers(-5, 75) | st.integers(-5, 3100)
moments = st.none() | minutes.map(lambda minutes: after(60 * minutes + 7))
filters = st.builds(
    JobFilter,
    service=st.sampled_from([None, None, "billing", "shop", "unknown"]),
    type=st.sampled_from([None, None, "send"]),
    state=st.just([JobState.DEAD]),
    since=moments,
    until=moments,
    error=st.sampled_from([None, None, "503", "No Route", "disk", "order 2", "route", "2", "a' f"]),
    id_prefix=st.sampled_from([None, None, None, "job-", "job-1"]),
    app_version=st.sampled_from([None, None, None, "v1"]),
)


def _plainly(path: Path, wanted: JobFilter) -> dict[tuple[str, str, str], list[tuple[Any, ...]]]:
    """The same by a look at every job: when each changed and ended, and its id, oldest first."""
    with closing(sqlite3.connect(path)) as database:
        rows = database.execute(
            "SELECT service, type, error, updated_at, ended_at, id, app_version "
            "FROM jobs_projection WHERE state = 'dead' ORDER BY updated_at"
        ).fetchall()
    low = -(2**63) if wanted.since is None else microseconds(wanted.since)
    high = 2**63 if wanted.until is None else microseconds(wanted.until)
    groups = defaultdict(list)
    for service, of_type, text, changed, ended, job_id, version in rows:
        if (
            wanted.service in (None, service)
            and wanted.type in (None, of_type)
            and low <= changed < high
            and (wanted.error or "").casefold() in text
            and job_id.startswith(wanted.id_prefix or "")
            and wanted.app_version in (None, version)
        ):
            groups[service, of_type, pattern_of(text)].append((changed, ended, job_id))
    return dict(groups)


def _check(group: DeadGroupView, jobs: list[tuple[Any, ...]]) -> None:
    """Several may have changed at the same time."""
    assert group.jobs == len(jobs)
    first, last = jobs[0][0], jobs[-1][0]
    oldest, newest = microseconds(group.oldest_at), microseconds(group.newest_at)
    assert oldest in {ended for changed, ended, _ in jobs if changed == first}
    assert (last, newest, group.example_id) in jobs


@given(deaths(), st.lists(st.integers(1, 40)), st.lists(filters, min_size=1, max_size=6))
@settings(max_examples=60)
def test_groups_are_what_a_look_at_every_dead_job_finds_whatever_is_asked(
    messages: list[LogMessage], cuts: list[int], asked: list[JobFilter]
) -> None:
    """They come from counts that are kept as jobs move: in batches, and back out of the list."""

    async def check(path: Path) -> None:
        async with Projection.open(path) as projection:
            ingest = Ingest(projection, LogPosition())
            for batch in split(messages, cuts):
                await ingest.apply(batch)
        async with Readers.open(path) as readers:
            for wanted in asked:
                found = await dead_groups(readers, wanted, offset=0, limit=50)
                expected = _plainly(path, wanted)
                shown = {
                    (group.service, group.type, (group.error or "").casefold()): group
                    for group in found.entries
                }
                assert shown.keys() == expected.keys()
                for kind, jobs in expected.items():
                    _check(shown[kind], jobs)
                assert found.count == len(expected)
                assert found.jobs == sum(map(len, expected.values()))
                numbers = [group.jobs for group in found.entries]
                assert numbers == sorted(numbers, reverse=True)
                for page, group in enumerate(found.entries):
                    alone = await dead_groups(readers, wanted, offset=page, limit=1)
                    assert alone.entries == (group,)

    with TemporaryDirectory() as folder:
        asyncio.run(check(Path(folder) / "jobs.sqlite"))


async def test_a_question_that_would_take_for_ever_is_given_up_and_says_what_to_do(
    tmp_path: Path,
) -> None:
    """`dlq list --group` timed out at 190,000 dead jobs, and the daemon went on looking."""
    path = tmp_path / "jobs.sqlite"
    async with Projection.open(path) as projection:
        await Ingest(projection, LogPosition()).apply(Scribe().write(created()).messages)
    endless = "WITH n (i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n) SELECT max(i) FROM n"
    async with Readers.open(path, count=1) as readers:
        with pytest.raises(QueryTimeout, match="add a service and a type, or a shorter time"):
            async with readers.snapshot(within=0.01) as database:
                await database.execute_fetchall(endless)
        assert (await reads.page(readers, JobFilter(), offset=0, limit=1)).count == 1
