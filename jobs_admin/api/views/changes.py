"""What has changed in the log after a position."""

from __future__ import annotations

from jobs_admin.api.views.base import View


class ChangesView(View):
    """`seq` is the position of the projection.

    `jobs` are the changed jobs as `service/type/id`, or None if there are too many to list, or if
    the position that was asked for is too long ago.
    """

    seq: int
    jobs: tuple[str, ...] | None = None

    def topics(self) -> frozenset[str] | None:
        """The changed jobs and their queues; None if anything may have changed."""
        if self.jobs is None:
            return None
        queues = {f"queue:{job.rpartition('/')[0]}" for job in self.jobs}
        return frozenset({*(f"job:{job}" for job in self.jobs), *queues})
