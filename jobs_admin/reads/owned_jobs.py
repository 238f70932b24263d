"""The active jobs whose attempts belong to one worker process."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from trellis_jobs.model.identity import JobAddress

if TYPE_CHECKING:
    from jobs_admin.reads.readers import Readers

# The states are written as in the partial index. Few jobs are active at a time.
_OWNED: Final = (
    "SELECT service, type, id FROM jobs_projection INDEXED BY jobs_by_rest "
    "WHERE state = 'active' AND state IN ('pending', 'retry', 'active') "
    "AND service = ? AND instance = ?"
)


async def owned_jobs(readers: Readers, service: str, instance: str) -> list[JobAddress]:
    return [JobAddress(*row) for row in await readers.rows(_OWNED, (service, instance))]
