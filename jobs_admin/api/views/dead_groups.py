"""Dead jobs grouped by error."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Self

from jobs_admin.api.views.base import Page, View


class DeadGroupView(View):
    """Dead jobs of one queue whose errors differ only where `error` has a `*`.

    `oldest_at` and `newest_at` are when the first and the last of them died; `example_id` is the id
    of one of them. `group` selects these jobs in filters, as `errorGroup`.
    `removed_at` is when retention removes the first of them, if it removes dead jobs.
    """

    service: str
    type: str
    error: str | None = None
    jobs: int
    oldest_at: datetime
    newest_at: datetime
    example_id: str
    group: str | None = None
    removed_at: datetime | None = None


class DeadGroups(Page[DeadGroupView]):
    """Largest groups first. `jobs` is the number of jobs in all groups, `count` that of groups."""

    jobs: int

    def kept_for(self, retention: timedelta | None) -> Self:
        """With the times of removal; None keeps dead jobs forever."""
        if retention is None:
            return self
        entries = tuple(
            group.model_copy(update={"removed_at": group.oldest_at + retention})
            for group in self.entries
        )
        return self.model_copy(update={"entries": entries})
