"""Usage of a limited resource, and the thresholds for warnings."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from trellis_jobs.model.values import Value

WARN_AT: Final = 0.80
CRITICAL_AT: Final = 0.95


class Level(StrEnum):
    FINE = "fine"
    FILLING = "filling"
    FULL = "full"


class Usage(Value, frozen=True):
    """`what` names the limited resource, such as "bytes of stream JOBS". `limit` is positive."""

    what: str
    used: int
    limit: int

    @property
    def share(self) -> float:
        return self.used / self.limit

    @property
    def level(self) -> Level:
        if self.share >= CRITICAL_AT:
            return Level.FULL
        return Level.FILLING if self.share >= WARN_AT else Level.FINE

    def __str__(self) -> str:
        return f"{self.what}: {self.share:.0%} used ({self.used:,} of {self.limit:,})"
