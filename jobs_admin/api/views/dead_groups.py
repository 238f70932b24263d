"""Dead jobs grouped by error."""

from __future__ import annotations

from datetime import datetime

from jobs_admin.api.views.base import Page, View


class DeadGroupView(View):
    """Dead jobs of one queue whose errors differ only where `error` has a `*`.

    `oldest_at` and `newest_at` are when the first and the last of them died; `example_id` is the id
    of one of them. `group` selects these jobs in filters, as `errorGroup`.
    """

    service: str
    type: str
    error: str | None = None
    jobs: int
    oldest_at: datetime
    newest_at: datetime
    example_id: str
    group: str | None = None


class DeadGroups(Page[DeadGroupView]):
    """Largest groups first. `jobs` is the number of jobs in all groups, `count` that of groups."""

    jobs: int
