"""The jobs that were in a state at a past moment, each computed from its events in the log."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from jobs_admin.explain.views import log_record
from jobs_admin.gather_limited import gather_limited
from jobs_admin.reads.jobs import with_number
from jobs_admin.reads.past_candidates import past_candidates
from jobs_admin.reads.readers import QUERY_TIMEOUT
from trellis_jobs.model.timeline import job_at
from trellis_jobs.wire import jobs as wire
from trellis_jobs.wire.fields import dumps

if TYPE_CHECKING:
    from jobs_admin.api.views.history import PastCursor
    from jobs_admin.reads.past_candidates import PastCandidate, PastFilter
    from jobs_admin.reads.readers import Readers
    from trellis_jobs.jetstream.log.history import Histories

# How many jobs one request may examine.
MAX_EXAMINED: Final = 200
_DOCUMENTS: Final = "SELECT job, document FROM jobs_projection WHERE job IN ({})"


@dataclass(frozen=True, slots=True)
class PastJob:
    """`document` is its JSON as it was."""

    cursor: PastCursor
    document: bytes


@dataclass(frozen=True, slots=True)
class PastJobs:
    """`end` is the cursor of the last job that was examined, if there may be more."""

    jobs: list[PastJob]
    examined: int
    end: PastCursor | None


async def past_jobs(
    readers: Readers,
    histories: Histories,
    wanted: PastFilter,
    *,
    limit: int,
    after: PastCursor | None = None,
) -> PastJobs:
    """At most `limit` jobs, and fewer if too many do not match. Raises QueryTimeout."""
    found: list[PastJob] = []
    examined = 0
    while len(found) < limit and examined < MAX_EXAMINED:
        size = min(limit - len(found), MAX_EXAMINED - examined)
        async with readers.snapshot(within=QUERY_TIMEOUT) as database:
            candidates = await past_candidates(database, wanted, after, size)
        jobs = await _as_they_were(readers, histories, wanted, candidates)
        found += [job for job in jobs if job is not None]
        examined += len(candidates)
        if len(candidates) < size:
            return PastJobs(found, examined, None)
        after = candidates[-1].cursor
    return PastJobs(found, examined, after)


async def _as_they_were(
    readers: Readers, histories: Histories, wanted: PastFilter, candidates: list[PastCandidate]
) -> list[PastJob | None]:
    """None for a job that was in another state, did not exist yet, or has left the log."""
    unchanged = [each.number for each in candidates if not each.has_changed]
    query = _DOCUMENTS.format(", ".join(map(str, unchanged)))
    documents = dict(await readers.rows(query)) if unchanged else {}

    async def one(candidate: PastCandidate) -> PastJob | None:
        if not candidate.has_changed:
            document = documents.get(candidate.number)
        else:
            document = await _from_log(histories, wanted, candidate)
        if document is None:
            return None
        return PastJob(candidate.cursor, with_number(candidate.number, document))

    return await gather_limited(one, candidates)


async def _from_log(
    histories: Histories, wanted: PastFilter, candidate: PastCandidate
) -> str | None:
    messages = await histories.messages(candidate.address, at_least=candidate.last_sequence)
    job = job_at(map(log_record, messages), wanted.at)
    if job is None or job.state not in wanted.states:
        return None
    return dumps(wire.to_json(job)).decode()
