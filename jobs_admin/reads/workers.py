"""The workers of one queue, and how many of its jobs are running; used to explain a job."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jobs_admin.explain.explanation import Worker
from jobs_admin.projection.rows import moment_of
from trellis_jobs.model.states import JobState

if TYPE_CHECKING:
    from jobs_admin.reads.readers import Readers


async def workers_of(readers: Readers, service: str, job_type: str) -> list[Worker]:
    """All workers in the projection, the most recently seen first."""
    query = (
        "SELECT instance, seen_at, coalesce(concurrency, 1) FROM worker_presence_projection "
        "WHERE service = ? AND type = ? ORDER BY seen_at DESC"
    )
    rows = await readers.rows(query, (service, job_type))
    return [Worker(instance, moment_of(seen_at), slots) for instance, seen_at, slots in rows]


async def running(readers: Readers, service: str, job_type: str) -> int:
    query = "SELECT jobs FROM job_counts WHERE service = ? AND type = ? AND state = ?"
    row = await readers.row(query, (service, job_type, JobState.ACTIVE.value))
    return int(row[0]) if row else 0
