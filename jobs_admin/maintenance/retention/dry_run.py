"""Counts what a retention policy would remove now, from a projection's file."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from jobs_admin.api.errors import ProjectionMissing
from jobs_admin.projection.compatibility import compatible_position, translate_sqlite_errors
from jobs_admin.projection.files import file_id
from jobs_admin.reads.candidates import count_ended
from jobs_admin.reads.readers import Readers

if TYPE_CHECKING:
    from datetime import datetime
    from pathlib import Path

    from jobs_admin.retention_policy import RetentionPolicy


async def dry_run(path: Path, policy: RetentionPolicy, now: datetime) -> Counter[str]:
    """Count the jobs of each state that are due.

    Raises ProjectionMissing, and the errors of compatible_position().
    """
    if file_id(path) is None:
        raise ProjectionMissing(path)
    with translate_sqlite_errors():
        await compatible_position(path)
        async with Readers.open(path, count=1) as readers:
            return await count_due(readers, policy, now)


async def count_due(readers: Readers, policy: RetentionPolicy, now: datetime) -> Counter[str]:
    found: Counter[str] = Counter()
    for state, before in policy.limits(now):
        found[state.value] = await count_ended(readers, state, before)
    return +found
