"""Reads jobs from bundles: the console without a server (`console serve --bundle`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Unpack

from jobs_admin.api.errors import Invalid, NotFound
from jobs_admin.api.rpc_sender import PAGE_SIZE
from jobs_admin.api.views.jobs import JobPage
from trellis_jobs.model.identity import JobAddress

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from jobs_admin.api.job_filter import JobFilter
    from jobs_admin.api.rpc_sender import JobPageArguments, PageArguments
    from jobs_admin.api.views.base import Page
    from jobs_admin.api.views.jobs import ExplanationView, JobView, LogEntry
    from jobs_admin.bundle.job_bundle import JobBundle


class BundleReads:
    """As `AdminClient`, for the jobs of the files. Secrets are never shown."""

    def __init__(self, bundles: Sequence[JobBundle]) -> None:
        """Raises Invalid if two files have the same job."""
        self._by_address = {each.address: each for each in bundles}
        if len(self._by_address) < len(bundles):
            raise Invalid("two of the bundles have the same job: name one of them")

    @property
    def bundles(self) -> Sequence[JobBundle]:
        return tuple(self._by_address.values())

    def now(self) -> datetime:
        """Times are relative to the newest export: what happened later is not in the files."""
        return max(each.exported_at for each in self.bundles)

    async def get(self, job: str | JobAddress, *, min_seq: int = 0) -> JobView:
        return self._bundle(job).view()

    async def explain(self, job: str | JobAddress, *, min_seq: int = 0) -> ExplanationView:
        explanation = self._bundle(job).explanation
        if explanation is None:
            raise NotFound("the job was exported without its explanation")
        return explanation

    async def list_events(
        self,
        job: str | JobAddress,
        *,
        after_seq: int = 0,
        notes: bool = True,
        **page: Unpack[PageArguments],
    ) -> Page[LogEntry]:
        offset, limit = page.get("offset", 0), page.get("limit", PAGE_SIZE)
        return self._bundle(job).events_page(
            after_seq=after_seq, notes=notes, offset=offset, limit=limit
        )

    async def list_jobs(self, query: JobFilter, **page: Unpack[JobPageArguments]) -> JobPage:
        """A bundle does not know which other jobs there are."""
        return JobPage(entries=(), count=0, offset=0, limit=page.get("limit", PAGE_SIZE))

    def _bundle(self, job: str | JobAddress) -> JobBundle:
        for address, bundle in self._by_address.items():
            if job in (address, address.job_id):
                return bundle
        name = job.job_id if isinstance(job, JobAddress) else job
        raise NotFound(f"no bundle has a job {name}")
