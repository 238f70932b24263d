"""Which jobs a bulk change would affect, read before the confirmation."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any, Final

from jobs_admin.api.client import AdminClient
from jobs_admin.api.errors import NotFound
from jobs_admin.api.views.jobs import JobView
from jobs_admin.api.views.operations import MatchedJobs
from jobs_admin.cli.bulk.result import NotDone, not_done
from jobs_admin.cli.bulk.targets import Named, Targets
from jobs_admin.cli.bulk.verbs import Verb
from trellis_jobs.model.identity import JobAddress

SHOWN: Final = 10


@dataclass(frozen=True, slots=True)
class Preview:
    """`count` is the number of all jobs; `jobs` are the first of them that exist.

    `others` match the filter too, but their state does not allow the change.
    """

    count: int
    jobs: tuple[JobView, ...] = ()
    missing: tuple[NotDone, ...] = ()
    others: tuple[MatchedJobs, ...] = ()

    def refusing(self, verb: Verb) -> list[JobView]:
        legal = verb.states
        return [job for job in self.jobs if job.state not in legal]

    def to_json(self, verb: Verb) -> dict[str, Any]:
        return {
            "verb": verb.name,
            "dryRun": True,
            "count": self.count,
            "jobs": [
                {"id": job.id, "service": job.service, "type": job.type, "state": job.state.value}
                for job in self.jobs
            ],
            "notFound": [each.id for each in self.missing],
        } | ({"others": list(self.others)} if self.others else {})


async def load_preview(admin: AdminClient, targets: Targets, verb: Verb) -> Preview:
    if isinstance(targets, Named):
        found = await asyncio.gather(*(_find(admin, job) for job in targets.jobs[:SHOWN]))
        return Preview(
            len(targets.jobs),
            tuple(each for each in found if isinstance(each, JobView)),
            tuple(each for each in found if isinstance(each, NotDone)),
        )
    page, preview = await asyncio.gather(
        admin.list_jobs(targets.query, limit=SHOWN),
        admin.preview(verb.operation, targets.preview, run_at=verb.run_at),
    )
    return Preview(preview.count, page.entries, others=preview.refused)


async def _find(admin: AdminClient, job: str | JobAddress) -> JobView | NotDone:
    try:
        return await admin.get(job)
    except NotFound as error:
        return not_done(job, error)
