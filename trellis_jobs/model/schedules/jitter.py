"""Whether the jitter of a new schedule fits between its ticks.

Ticks are decided in order, so a job that waits for its delay holds back the ticks behind it. With
jitter longer than the gap between ticks, several become due together, and the catch-up policy takes
all but the newest for missed ones.
"""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from trellis_jobs.errors import DeclarationError
from trellis_jobs.model.durations import format_duration
from trellis_jobs.model.schedules.definition import LATEST
from trellis_jobs.model.schedules.ticks import ticks_between

if TYPE_CHECKING:
    from trellis_jobs.model.schedules.definition import ScheduleDefinition

_TICKS: Final = 100
# Not the current time: a declaration that was accepted once must not fail in the weeks before a
# clock change, which makes one day an hour shorter. Few zones change their clocks in this summer.
_BEGIN: Final = datetime(2024, 6, 1, tzinfo=UTC)


def check_jitter(definition: ScheduleDefinition) -> None:
    """Raises DeclarationError if jitter is longer than the shortest gap of a hundred ticks.

    Only for definitions that someone makes. Stored ones stay readable, whatever their jitter.
    """
    if not definition.jitter:
        return
    ticks = ticks_between(definition, _BEGIN, LATEST, _TICKS)
    gap = min((later - tick for tick, later in pairwise(ticks)), default=None)
    if gap is not None and definition.jitter > gap:
        raise DeclarationError(
            f"jitter ({format_duration(definition.jitter)}) is longer than the shortest time "
            f"between two ticks ({format_duration(gap)}), so most jobs would be skipped: use a "
            "shorter jitter"
        )
