"""Right usage of the admin client: both type checkers accept it without a word."""

from __future__ import annotations

from datetime import datetime
from typing import assert_type

from jobs_admin.api.client import AdminClient, JobQuery
from jobs_admin.api.errors import Invalid, Issue, NotFound
from jobs_admin.api.reasons import Because
from jobs_admin.api.views.health import CheckView, HealthStatus
from jobs_admin.api.views.jobs import ChangedJob, JobPage, JobPlace, JobView, LogEntry
from jobs_admin.api.views.services import ServiceView
from trellis_jobs.model.identity import JobAddress
from trellis_jobs.model.states import JobState


async def look(admin: AdminClient) -> None:
    page = await admin.list_jobs(JobQuery(service="shop", state=[JobState.DEAD]), limit=10)
    assert_type(page, JobPage)
    assert_type(page.entries, tuple[JobView, ...])
    assert_type(page.next_before, JobPlace | None)
    assert_type(page.next_offset, int | None)
    async for job in admin.jobs(JobQuery(payload={"order": 17})):
        assert_type(job, JobView)
        assert_type(job.state, JobState)
        assert_type(job.deadline, datetime | None)
    async for entry in admin.events(JobAddress("shop", "greet", "01J")):
        assert_type(entry, LogEntry)
    async for service in admin.services():
        assert_type(service, ServiceView)
    explained = await admin.explain("01J")
    assert_type(explained.because, Because)
    health = await admin.health()
    assert_type(health.status, HealthStatus)
    assert_type(health.check("projection"), CheckView | None)


async def steer(url: str) -> str:
    async with AdminClient.connect(url, by="ann") as admin:
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
