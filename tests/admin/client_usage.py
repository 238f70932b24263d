"""Right usage of the admin client: both type checkers accept it without a word."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import assert_type

from jobs_admin.api.client import AdminClient
from jobs_admin.api.errors import Invalid, Issue, NotFound
from jobs_admin.api.job_filter import JobFilter
from jobs_admin.api.reasons import Because
from jobs_admin.api.views.doctor import Level
from jobs_admin.api.views.health import CheckView, HealthStatus
from jobs_admin.api.views.jobs import ChangedJob, JobCursor, JobPage, JobView, LogEntry
from jobs_admin.api.views.queues import ChangedQueue, QueueView
from jobs_admin.api.views.schedules import ChangedSchedule, ScheduleView, TickView
from jobs_admin.api.views.services import ServiceView
from jobs_admin.api.views.workers import DirectedWorker, WorkerProcessView
from jobs_admin.api.worker_filter import WorkerFilter
from trellis_jobs.model.identity import JobAddress
from trellis_jobs.model.schedules.address import ScheduleAddress
from trellis_jobs.model.schedules.definition import Overlap
from trellis_jobs.model.states import JobState
from trellis_jobs.model.worker_states import WorkerState


async def look(admin: AdminClient) -> None:
    page = await admin.list_jobs(JobFilter(service="shop", state=[JobState.DEAD]), limit=10)
    assert_type(page, JobPage)
    assert_type(page.entries, tuple[JobView, ...])
    assert_type(page.next_before, JobCursor | None)
    assert_type(page.next_offset, int | None)
    async for job in admin.jobs(JobFilter(payload={"order": 17})):
        assert_type(job, JobView)
        assert_type(job.state, JobState)
        assert_type(job.deadline, datetime | None)
    async for entry in admin.events(JobAddress("shop", "greet", "01J")):
        assert_type(entry, LogEntry)
    async for service in admin.services():
        assert_type(service, ServiceView)
    async for queue in admin.queues():
        assert_type(queue, QueueView)
        assert_type(queue.depth, int | None)
    async for worker in admin.workers(WorkerFilter(labels=("eu",))):
        assert_type(worker, WorkerProcessView)
        assert_type(worker.state, WorkerState)
    async for schedule in admin.schedules.all(service="shop"):
        assert_type(schedule, ScheduleView)
        assert_type(schedule.next, TickView | None)
    examined = await admin.doctor()
    assert_type(examined.sections[0].findings[0].level, Level)
    explained = await admin.explain("01J")
    assert_type(explained.because, Because)
    health = await admin.health()
    assert_type(health.status, HealthStatus)
    assert_type(health.check("projection"), CheckView | None)


async def steer(url: str) -> str:
    async with AdminClient.connect(url, by="ann") as admin:
        paused = await admin.pause_queue("shop", "greet", reason="x", duration=timedelta(hours=1))
        assert_type(paused, ChangedQueue)
        directed = await admin.direct_workers([("shop", "01J")], WorkerState.QUIET, reason="x")
        assert_type(directed, tuple[DirectedWorker, ...])
        nightly = ScheduleAddress("shop", "report", "nightly")
        made = await admin.schedules.put(nightly, {"day": 1}, cron="@daily", overlap=Overlap.SKIP)
        assert_type(made, ChangedSchedule)
        assert_type(made.schedule.next_ticks, tuple[TickView, ...])
        assert_type((await admin.schedules.trigger(nightly)).job_id, str)
        try:
            changed = await admin.cancel("01J", reason="not needed")
        except NotFound as missing:
            return missing.request_id
        except Invalid as refused:
            assert_type(refused.issues, tuple[Issue, ...])
            assert_type(refused.since, datetime | None)
            assert_type(refused.raced, bool)
            return f"{refused.actual} is none of {refused.expected}"
        assert_type(changed, ChangedJob)
        return changed.job.id
