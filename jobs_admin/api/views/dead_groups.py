"""What jobs died of."""

from __future__ import annotations

from datetime import datetime

from jobs_admin.api.views.shape import Page, View


class DeadGroupView(View):
    """Dead jobs of one queue whose errors differ only where `error` has a `*`.

    `oldest_at` and `newest_at` are when the first and the last of them died; `example_id` is one.
    """

    service: str
    type: str
    error: str | None = None
    jobs: int
    oldest_at: datetime
    newest_at: datetime
    example_id: str


class DeadGroups(Page[DeadGroupView]):
    """The most frequent first; `jobs` are those of all groups, and `count` is of the groups."""

    jobs: int
