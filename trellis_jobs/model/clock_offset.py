"""How a clock that is wrong is corrected by the server's."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

# Less is not worth a correction: it is what networks and unsynchronised clocks usually differ by.
MIN_OFFSET: Final = timedelta(seconds=2)
_MAX_OFFSET_TO_STOP: Final = timedelta(seconds=1)
# A correction follows the measurements only in such steps, so that time does not jitter.
_STEP: Final = timedelta(milliseconds=500)
# The server's time is known to half a round trip; a slower answer says too little.
MAX_ROUND_TRIP: Final = timedelta(seconds=1)


def correction(measured: timedelta, before: timedelta) -> timedelta:
    """What to add to the own clock, given that the server's is `measured` ahead of it.

    `before` is the correction so far; one that is in use ends only well below the threshold.
    """
    limit = _MAX_OFFSET_TO_STOP if before else MIN_OFFSET
    if abs(measured) <= limit:
        return timedelta()
    return before if before and abs(measured - before) < _STEP else measured
