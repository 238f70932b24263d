"""Jobs.GroupErrors: what jobs died of, failed with, or wait for their next try because of."""

from __future__ import annotations

import asyncio
import sqlite3
from collections import Counter, defaultdict
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jobs_admin.api.errors import Invalid
from jobs_admin.api.job_filter import JobFilter
from jobs_admin.api.views.dead_groups import ErrorGroupView
from jobs_admin.projection.error_patterns import pattern_of
from jobs_admin.projection.ingest import Ingest
from jobs_admin.projection.rows import GROUPED, microseconds
from jobs_admin.projection.store import Projection
from jobs_admin.reads.group_details import HOURS, error_groups
from jobs_admin.reads.readers import Readers
from tests.admin.admin_lab import AdminLab, until_shown
from tests.admin.made_log import Scribe, split
from tests.given import (
    after,
    created,
    dead,
    error,
    failed,
    retry_scheduled,
    snoozed,
    started,
)
from tests.support.lab import dead_jobs
from trellis_jobs.jetstream.log.feed import LogMessage, LogPosition
from trellis_jobs.model import events as e
from trellis_jobs.model.identity import JobAddress
from trellis_jobs.model.states import JobState

QUEUES = [("billing", "send"), ("billing", "print"), ("shop", "send")]
ERRORS = ["503 for order 1", "503 for order 22", "no ROUTE", "disk 'a' full", "disk 'b' full"]
NOW = after(3600 * 20)


@st.composite
def troubles(draw: st.DrawFn) -> list[LogMessage]:
    """Jobs whose last try failed, of which some run again, were snoozed, or have ended."""
    scribe = Scribe()
    for number in range(draw(st.integers(1, 12))):
        job = JobAddress(*draw(st.sampled_from(QUEUES)), f"job-{number}")
        at = after(60.0 * draw(st.integers(0, 45) | st.integers(0, 3000)))
        of_job = {"job": job, "at": at}
        version = draw(st.sampled_from([None, "v1", "v2"]))
        why = error(message=draw(st.sampled_from(ERRORS)))
        began = [created(**of_job), started(**of_job, app_version=version)]
        ends: dict[str, list[e.Event]] = {
            "dead": [dead(**of_job, error=why)],
            "failed": [failed(**of_job, error=why)],
            "retry": [retry_scheduled(**of_job, error=why)],
            "again": [retry_scheduled(**of_job, error=why), started(**of_job, tries=2)],
            "snoozed": [snoozed(**of_job)],
            "snoozed later": [
                retry_scheduled(**of_job, error=why),
                started(**of_job, tries=2),
                snoozed(**of_job, tries=1, error=error(type="snooze", message="closed", tries=2)),
            ],
        }
        scribe.write(*began, *ends[draw(st.sampled_from(list(ends)))])
    return scribe.messages


moments = st.none() | st.integers(-5, 3100).map(lambda minutes: after(60 * minutes + 7))
filters = st.builds(
    JobFilter,
    service=st.sampled_from([None, None, "billing", "shop", "unknown"]),
    type=st.sampled_from([None, None, "send"]),
    state=st.lists(st.sampled_from(GROUPED), min_size=1, unique=True),
    since=moments,
    until=moments,
    error=st.sampled_from([None, None, "503", "No Route", "disk", "order 2", "2"]),
    id_prefix=st.sampled_from([None, None, None, "job-", "job-1"]),
    app_version=st.sampled_from([None, None, None, "v1"]),
)
Row = tuple[Any, ...]


def in_trouble(path: Path) -> list[Row]:
    """Every job that its last error put where it is, oldest change first."""
    with closing(sqlite3.connect(path)) as database:
        return database.execute(
            "SELECT service, type, error, state, updated_at, coalesce(ended_at, updated_at), id, "
            "app_version FROM jobs_projection WHERE state IN ('dead', 'failed') OR "
            "(state = 'retry' AND json_extract(document, '$.snoozedUntil') IS NULL "
            "AND error IS NOT NULL) ORDER BY updated_at"
        ).fetchall()


def plainly(rows: list[Row], wanted: JobFilter) -> dict[tuple[str, str, str], list[Row]]:
    low = -(2**63) if wanted.since is None else microseconds(wanted.since)
    high = 2**63 if wanted.until is None else microseconds(wanted.until)
    groups = defaultdict(list)
    for row in rows:
        service, of_type, text, state, changed, _, job_id, version = row
        if (
            wanted.service in (None, service)
            and wanted.type in (None, of_type)
            and state in (wanted.state or ())
            and low <= changed < high
            and (wanted.error or "").casefold() in text
            and job_id.startswith(wanted.id_prefix or "")
            and wanted.app_version in (None, version)
        ):
            groups[service, of_type, pattern_of(text)].append(row)
    return dict(groups)


def check(group: ErrorGroupView, jobs: list[Row]) -> None:
    """Several may have changed at the same time."""
    assert group.jobs == len(jobs)
    assert microseconds(group.oldest_at) == min(job[5] for job in jobs)
    last = jobs[-1][4]
    assert (microseconds(group.newest_at), group.example_id) in [
        (job[5], job[6]) for job in jobs if job[4] == last
    ]


def check_details(group: ErrorGroupView, jobs: list[Row]) -> None:
    """`jobs` are all of the group in the requested states."""
    assert group.states == Counter(JobState(job[3]) for job in jobs)
    versions = Counter(job[7] for job in jobs if job[7] is not None)
    ordered = sorted(versions.items(), key=lambda each: (-each[1], each[0]))
    assert group.app_versions == tuple(version for version, _ in ordered)
    hour = 3_600_000_000
    hours = Counter(job[4] // hour for job in jobs)
    now = microseconds(NOW) // hour
    assert group.hourly == tuple(hours[each] for each in range(now - HOURS + 1, now + 1))


@given(troubles(), st.lists(st.integers(1, 40)), st.lists(filters, min_size=1, max_size=6))
@settings(max_examples=60)
def test_groups_are_what_a_look_at_every_job_finds_whatever_is_asked(
    messages: list[LogMessage], cuts: list[int], asked: list[JobFilter]
) -> None:
    async def compare(path: Path) -> None:
        async with Projection.open(path) as projection:
            ingest = Ingest(projection, LogPosition())
            for batch in split(messages, cuts):
                await ingest.apply(batch)
        rows = in_trouble(path)
        async with Readers.open(path) as readers:
            for wanted in asked:
                found = await error_groups(readers, wanted, now=NOW, offset=0, limit=50)
                expected = plainly(rows, wanted)
                of_states = plainly(rows, JobFilter(state=wanted.state))
                shown = {
                    (group.service, group.type, (group.error or "").casefold()): group
                    for group in found.entries
                }
                assert shown.keys() == expected.keys()
                for kind, jobs in expected.items():
                    check(shown[kind], jobs)
                    check_details(shown[kind], of_states[kind])
                assert found.count == len(expected)
                assert found.jobs == sum(map(len, expected.values()))
                numbers = [group.jobs for group in found.entries]
                assert numbers == sorted(numbers, reverse=True)
                for page, group in enumerate(found.entries):
                    alone = await error_groups(readers, wanted, now=NOW, offset=page, limit=1)
                    assert alone.entries == (group,)

    with TemporaryDirectory() as folder:
        asyncio.run(compare(Path(folder) / "jobs.sqlite"))


async def test_operators_see_what_keeps_jobs_from_being_done(lab: AdminLab) -> None:
    ids = await dead_jobs(lab.url, "503 for order 1", "503 for order 2", version="1.4.2")
    await until_shown(lab.client, ids, JobState.DEAD)
    page = await lab.client.group_errors()
    [group] = page.entries
    assert (group.jobs, group.states, group.app_versions) == (2, {JobState.DEAD: 2}, ("1.4.2",))
    assert (len(group.hourly), sum(group.hourly)) == (HOURS, 2)
    assert page.hours_end_at - group.newest_at < timedelta(hours=1, minutes=5)
    of_failed = await lab.client.group_errors(JobFilter(state=[JobState.FAILED]))
    assert (of_failed.entries, of_failed.count, of_failed.jobs) == ((), 0, 0)
    [dead_group] = (await lab.client.group_dead()).entries
    [of_dead] = (await lab.client.group_errors(JobFilter(state=[JobState.DEAD]))).entries
    assert dead_group.model_dump().items() <= of_dead.model_dump().items()
    assert dead_group.removed_at == dead_group.oldest_at + timedelta(days=90)
    assert group.removed_at is None, "jobs in other states are kept for another time"


async def test_jobs_in_other_states_have_no_errors_to_group_by(lab: AdminLab) -> None:
    with pytest.raises(Invalid, match="state"):
        await lab.client.group_errors(JobFilter(state=[JobState.COMPLETED]))
