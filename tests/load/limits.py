"""What is still bounded, and what has recovered."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tests.load.campaign import Outcome, Plan
from tests.load.pickups import percentile

# Megabytes that a process may grow by, and kilobytes more for each job of the run: the log, and
# the server's index of it, are there to grow (docs/operate/capacity.md). A server also holds up to
# 64 MB for the client that does not read, and garbage of the burst.
_FIXED: Final[Mapping[str, float]] = {"worker": 50, "admin runtime": 250, "server": 400}
_PER_JOB: Final[Mapping[str, float]] = {"worker": 0, "admin runtime": 0, "server": 4}


def overweight(outcome: Outcome, plan: Plan) -> list[str]:
    """The processes that grew by more than they may."""
    return [
        f"{kind} grew by {weight.grown:.0f} MB: more than {_allowed(kind, plan.jobs):.0f}"
        for kind, weight in outcome.weights.items()
        if weight.grown > _allowed(kind, plan.jobs)
    ]


def slowdown(outcome: Outcome) -> float:
    """How much longer the middle job waits after the burst than before it."""
    return percentile(outcome.after, 50) / percentile(outcome.before, 50)


def _allowed(kind: str, jobs: int) -> float:
    return _FIXED[kind] + _PER_JOB[kind] * jobs / 1024
