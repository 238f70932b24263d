"""Jobs that may need maintenance. The projection only suggests them; the log decides."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import orjson

from jobs_admin.projection.rows import microseconds
from trellis_jobs.jetstream.log.event_log import Latest
from trellis_jobs.model.identity import JobAddress
from trellis_jobs.model.job_status import Head
from trellis_jobs.model.states import JobState
from trellis_jobs.wire import jobs as wire

if TYPE_CHECKING:
    from collections.abc import Collection
    from datetime import datetime

    from jobs_admin.reads.readers import Readers
    from trellis_jobs.model.concurrency import Concurrency

# The states are written exactly as in the partial index, because otherwise SQLite cannot use it.
OVERDUE: Final = (
    "SELECT deadline, job, last_sequence, document "
    "FROM jobs_projection INDEXED BY jobs_by_deadline "
    "WHERE deadline IS NOT NULL AND state IN ('scheduled', 'pending', 'retry', 'active') "
    "AND deadline <= ? AND (deadline, job) > (?, ?) ORDER BY deadline, job LIMIT ?"
)
OVERDUE_DELAYS: Final = (
    "SELECT next_attempt_at, job, service, type, id "
    "FROM jobs_projection INDEXED BY jobs_by_release "
    "WHERE state = 'scheduled' AND next_attempt_at <= ? AND (next_attempt_at, job) > (?, ?) "
    "ORDER BY next_attempt_at, job LIMIT ?"
)
# This compares with the time at which the server stored the newest event, because the clock of a
# producer or a worker may be wrong.
RESTING: Final = (
    "SELECT last_stored_at, job, last_sequence, document "
    "FROM jobs_projection INDEXED BY jobs_by_rest "
    "WHERE state = ?1 AND state IN ('pending', 'retry', 'active') "
    "AND last_stored_at <= ?2 AND (last_stored_at, job) > (?3, ?4) "
    "AND last_stored_at + max(0, coalesce(next_attempt_at - updated_at, 0)) <= ?2 "
    "ORDER BY last_stored_at, job LIMIT ?5"
)
# This compares the times in events and those of the server, because a worker's clock may be wrong.
_ENDED_BEFORE: Final = (
    "FROM jobs_projection INDEXED BY jobs_by_move "
    "WHERE state = ?1 AND moved_at <= ?2 AND ended_at <= ?2 AND last_stored_at <= ?2"
)
DUE: Final = (
    f"SELECT moved_at, job, service, type, id {_ENDED_BEFORE} "
    "AND (moved_at, job) > (?3, ?4) ORDER BY moved_at, job LIMIT ?5"
)
COUNT_RESTING: Final = (
    "SELECT count(*) FROM jobs_projection INDEXED BY jobs_by_rest "
    "WHERE state IN ('pending', 'retry', 'active') AND last_stored_at <= ?"
)
COUNT_ENDED: Final = f"SELECT count(*) {_ENDED_BEFORE}"
_MAX_IDS: Final = 500


@dataclass(frozen=True, slots=True)
class PageEnd:
    """The end of a page; the next page begins after it. The default is before every job."""

    at: int = -(2**63)
    job: int = -1


@dataclass(frozen=True, slots=True)
class Candidate:
    """`seen` is the job's state according to the projection.

    Large fields are left out, because there are hundreds of candidates at a time.
    """

    job: JobAddress
    seen: Latest
    concurrency: Concurrency | None
    page_end: PageEnd


async def overdue(
    readers: Readers, now: datetime, *, after: PageEnd, limit: int
) -> list[Candidate]:
    """Jobs that have not ended although their deadline has passed, earliest deadline first."""
    values = (microseconds(now), after.at, after.job, limit)
    return [_candidate(row) async for row in readers.each(OVERDUE, values)]


async def overdue_delays(
    readers: Readers, due_before: datetime, *, after: PageEnd, limit: int
) -> tuple[list[JobAddress], PageEnd]:
    """Delayed jobs that were due by then, the earliest first, and the page's end."""
    values = (microseconds(due_before), after.at, after.job, limit)
    rows = await readers.rows(OVERDUE_DELAYS, values)
    page_end = PageEnd(*rows[-1][:2]) if rows else after
    return [JobAddress(*address) for _, _, *address in rows], page_end


async def resting(
    readers: Readers, state: JobState, since: datetime, *, after: PageEnd, limit: int
) -> list[Candidate]:
    """Jobs in a state that have not changed since then, and whose next try was due by then.

    `since` is the server's time.
    """
    values = (state.value, microseconds(since), after.at, after.job, limit)
    return [_candidate(row) async for row in readers.each(RESTING, values)]


async def count_resting(readers: Readers, since: datetime) -> int:
    """Count jobs that have not ended and have not changed since then, by the server's time."""
    row = await readers.row(COUNT_RESTING, (microseconds(since),))
    return int(row[0]) if row else 0


async def due(
    readers: Readers, state: JobState, before: datetime, *, after: PageEnd, limit: int
) -> tuple[dict[JobAddress, int], PageEnd]:
    """Jobs that ended before then with the sequences of their first events, and the page's end.

    The earliest ended jobs come first.
    """
    values = (state.value, microseconds(before), after.at, after.job, limit)
    rows = await readers.rows(DUE, values)
    page_end = PageEnd(*rows[-1][:2]) if rows else after
    return {JobAddress(*address): number for _, number, *address in rows}, page_end


async def count_ended(readers: Readers, state: JobState, before: datetime) -> int:
    row = await readers.row(COUNT_ENDED, (state.value, microseconds(before)))
    return int(row[0]) if row else 0


async def states_of(
    readers: Readers, service: str, job_type: str, ids: Collection[str]
) -> dict[str, JobState]:
    """The states of those jobs that the projection knows."""
    all_ids, found = list(ids), {}
    for start in range(0, len(all_ids), _MAX_IDS):
        some = all_ids[start : start + _MAX_IDS]
        marks = ", ".join("?" * len(some))
        query = (
            "SELECT id, state FROM jobs_projection "  # noqa: S608 - only marks
            f"WHERE id IN ({marks}) AND service = ? AND type = ?"
        )
        for job_id, state in await readers.rows(query, (*some, service, job_type)):
            found[job_id] = JobState(state)
    return found


def _candidate(row: tuple[Any, ...]) -> Candidate:
    at, number, last_sequence, document = row
    job = wire.from_json(orjson.loads(document))
    seen = Latest(Head(last_sequence, job.status), job.context)
    return Candidate(job.address, seen, job.run.concurrency, PageEnd(at, number))
