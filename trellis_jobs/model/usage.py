"""Usage of a limited resource, and the thresholds for warnings."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

from trellis_jobs.model.values import Value

if TYPE_CHECKING:
    from collections.abc import Mapping

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


def limited(found: Mapping[str, tuple[Any, Any]]) -> list[Usage]:
    """Makes usages of pairs of a used amount and its limit, leaving out those without a limit."""
    return [
        Usage(what, int(used), int(limit))
        for what, (used, limit) in found.items()
        if limit is not None and int(limit) > 0
    ]
