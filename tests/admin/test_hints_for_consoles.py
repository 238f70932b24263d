"""`Jobs.Changes`: a console that is open learns which jobs have changed, and asks no more often."""

from __future__ import annotations

import asyncio

from jobs_admin.api.client import AdminClient
from jobs_admin.api.views.changes import ChangesView
from jobs_admin.api.views.health import Mode
from jobs_admin.projection.recent_changes import RecentChanges
from tests.admin.admin_lab import AdminLab, daemon_at
from tests.admin.made_log import Scribe, of
from tests.given import completed, created, started
from tests.support.example_service import Task
from trellis_jobs.model.identity import JobAddress


async def test_a_request_that_waits_is_answered_by_the_next_change(lab: AdminLab) -> None:
    before = await lab.client.changes(0)
    waiting = asyncio.create_task(lab.client.changes(before.seq, wait_ms=5_000))
    ref = await lab.jobs.work.create(Task())
    changes = await waiting
    assert changes.seq > before.seq
    assert changes.jobs == (f"{ref.address.service}/{ref.address.job_type}/{ref.id}",)
    assert changes.topics() == frozenset(
        {
            f"job:{ref.address.service}/{ref.address.job_type}/{ref.id}",
            f"queue:{ref.address.service}/{ref.address.job_type}",
        }
    )


async def test_without_a_change_the_position_comes_back(lab: AdminLab) -> None:
    ref = await lab.jobs.work.create(Task())
    seen = await lab.client.get(ref.id, min_seq=1)
    assert seen.last_seq is not None
    changes = await lab.client.changes(seen.last_seq, wait_ms=1)
    assert changes == ChangesView(seq=seen.last_seq, jobs=())


async def test_a_daemon_that_only_reads_reports_changes_without_their_jobs(lab: AdminLab) -> None:
    before = await lab.client.changes(0)
    async with daemon_at(lab.url, lab.path, mode=Mode.RPC_ONLY) as reader:
        client = AdminClient(reader.connection)
        await lab.jobs.work.create(Task())
        for _ in range(10):  # either of the two daemons answers
            changes = await client.changes(before.seq, wait_ms=5_000)
            assert changes.seq > before.seq
            assert changes.jobs is None or len(changes.jobs) == 1


def job(number: int) -> JobAddress:
    return JobAddress("documents", "render-report", f"job-{number}")


def changes_of(*batches: Scribe) -> RecentChanges:
    changes = RecentChanges()
    for batch in batches:
        changes.add(batch.messages)
    return changes


def test_each_job_is_named_once_and_heartbeats_are_no_jobs() -> None:
    log = (
        Scribe()
        .write(*of(job(1), created(), started()))
        .beat("pod-7")
        .write(*of(job(2), created()))
    )
    names = ("documents/render-report/job-1", "documents/render-report/job-2")
    assert changes_of(log).jobs_after(0) == names


def test_nothing_is_known_about_what_was_before() -> None:
    log = Scribe().write(*of(job(1), created(), started(), completed()))
    changes = RecentChanges()
    changes.begin(1)
    changes.add(log.messages[1:])
    assert changes.jobs_after(0) is None
    assert changes.jobs_after(1) == ("documents/render-report/job-1",)


def test_too_many_jobs_are_not_listed() -> None:
    log = Scribe()
    for number in range(600):
        log.write(*of(job(number), created()))
    changes = changes_of(log)
    assert changes.jobs_after(0) is None


def test_the_oldest_changes_are_forgotten() -> None:
    log = Scribe()
    for number in range(300):
        log.write(*of(job(number), created()))
    changes = RecentChanges()
    for message in log.messages:
        changes.add([message])
    assert changes.jobs_after(99) is None
    known = changes.jobs_after(100)
    assert known is not None
    assert len(known) == 200
