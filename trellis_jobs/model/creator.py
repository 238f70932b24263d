"""Who created a job, if that was not its service."""

from __future__ import annotations

from typing import Final

from trellis_jobs.model.values import Value


class Creator(Value, frozen=True):
    """The operator who created a job, why, and by which request. All are None for a service."""

    by: str | None = None
    reason: str | None = None
    request: str | None = None


ITS_SERVICE: Final = Creator()
