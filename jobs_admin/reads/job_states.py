"""The states of a few jobs of one queue."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trellis_jobs.model.states import JobState

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jobs_admin.reads.readers import Readers


async def job_states(
    readers: Readers, service: str, job_type: str, ids: Sequence[str]
) -> dict[str, JobState]:
    """By id, without jobs that the projection does not have."""
    places = ", ".join("?" * len(ids))
    query = (
        f"SELECT id, state FROM jobs_projection WHERE id IN ({places}) "  # noqa: S608 - only places
        "AND service = ? AND type = ?"
    )
    rows = await readers.rows(query, (*ids, service, job_type))
    return {job_id: JobState(state) for job_id, state in rows}
