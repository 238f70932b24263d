"""What the pages of one job read: from an admin runtime, or from files that were exported."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, Unpack

if TYPE_CHECKING:
    from jobs_admin.api.job_filter import JobFilter
    from jobs_admin.api.rpc_sender import JobPageArguments, PageArguments
    from jobs_admin.api.views.base import Page
    from jobs_admin.api.views.jobs import ExplanationView, JobPage, JobView, LogEntry
    from trellis_jobs.model.identity import JobAddress


class JobReads(Protocol):
    """As `AdminClient` has them."""

    async def get(self, job: str | JobAddress, *, min_seq: int = 0) -> JobView: ...

    async def explain(self, job: str | JobAddress, *, min_seq: int = 0) -> ExplanationView: ...

    async def list_events(
        self,
        job: str | JobAddress,
        *,
        after_seq: int = 0,
        notes: bool = True,
        **page: Unpack[PageArguments],
    ) -> Page[LogEntry]: ...

    async def list_jobs(self, query: JobFilter, **page: Unpack[JobPageArguments]) -> JobPage: ...
