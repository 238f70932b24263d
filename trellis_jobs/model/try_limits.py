"""The time limits of each try of one job, which replace those of its queue."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

from trellis_jobs.model.values import Value

if TYPE_CHECKING:
    from datetime import timedelta


class Renewal(StrEnum):
    """Who renews the lease of a running job: its worker, or only its handler."""

    AUTOMATIC = "automatic"
    MANUAL = "manual"


class TryLimits(Value, frozen=True):
    """None: the job has the limit of its queue."""

    timeout: timedelta | None = None
    visibility: timedelta | None = None
