"""Correct the machine's clock by the offset from the server's clock."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

# Smaller offsets are ignored: network delays and ordinary clock drift cause them all the time.
MIN_OFFSET: Final = timedelta(seconds=2)
_MAX_OFFSET_TO_STOP: Final = timedelta(seconds=1)
# The correction changes only when the measured offset differs by this much, to avoid jitter.
_STEP: Final = timedelta(milliseconds=500)
# A measurement is accurate to half a round trip, so slower ones are discarded.
MAX_ROUND_TRIP: Final = timedelta(seconds=1)


def correction(measured: timedelta, before: timedelta) -> timedelta:
    """Return what to add to the local clock when the server's clock is `measured` ahead of it.

    `before` is the current correction. Correcting stops at a lower offset than it starts at, so
    that an offset near the threshold does not switch it on and off.
    """
    limit = _MAX_OFFSET_TO_STOP if before else MIN_OFFSET
    if abs(measured) <= limit:
        return timedelta()
    return before if before and abs(measured - before) < _STEP else measured
