"""What a policy would remove now, told from a projection's file and without touching anything."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from jobs_admin.api.errors import ProjectionMissing
from jobs_admin.projection.compatibility import fit_place, naming_trouble
from jobs_admin.projection.files import file_id
from jobs_admin.reads.candidates import how_many_due
from jobs_admin.reads.readers import Readers

if TYPE_CHECKING:
    from datetime import datetime
    from pathlib import Path

    from jobs_admin.retention_policy import RetentionPolicy


async def dry_run(path: Path, policy: RetentionPolicy, now: datetime) -> Counter[str]:
    """How many jobs of each state are due. Raises ProjectionMissing, and what fit_place does."""
    if file_id(path) is None:
        raise ProjectionMissing(path)
    with naming_trouble():
        await fit_place(path)
        async with Readers.open(path, count=1) as readers:
            return await count_due(readers, policy, now)


async def count_due(readers: Readers, policy: RetentionPolicy, now: datetime) -> Counter[str]:
    found: Counter[str] = Counter()
    for state, before in policy.limits(now):
        found[state.value] = await how_many_due(readers, state, before)
    return +found
