"""A cache of rows, so that an event need not read its job's row."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from jobs_admin.projection.batch import JobRow
    from trellis_jobs.model.identity import JobAddress

_MAX_ROWS: Final = 20_000


class KnownRows:
    """The most recently written rows, limited in number and in bytes."""

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self.bytes = 0
        # Each row with the size that was added to `bytes`, because a row grows later.
        self._rows: OrderedDict[JobAddress, tuple[JobRow, int]] = OrderedDict()

    def of(self, jobs: Iterable[JobAddress]) -> dict[JobAddress, JobRow]:
        """Return the cached rows of these jobs."""
        rows = self._rows
        return {job: rows[job][0] for job in jobs if job in rows}

    def keep(self, written: Mapping[JobAddress, JobRow]) -> None:
        for job, row in written.items():
            self.pop(job)
            self._rows[job] = (row, row.size)
            self.bytes += row.size
        while len(self._rows) > _MAX_ROWS or self.bytes > self.max_bytes:
            self.bytes -= self._rows.popitem(last=False)[1][1]

    def pop(self, job: JobAddress, default: None = None) -> None:
        """Remove the row, if it is cached."""
        _, size = self._rows.pop(job, (default, 0))
        self.bytes -= size
