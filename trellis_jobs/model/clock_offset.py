"""The offset of the machine's clock from the server's clock, and the time of the server."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
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


class ServerTime:
    """The latest time that the server's clock has certainly reached. It is never ahead of it.

    Every reply and every stored message that arrives has a time at which the server's clock was.
    The monotonic clock of this machine continues from it, so that a wrong clock of this machine, or
    one that jumps, makes no difference. The best of the last one to two minutes counts: the others
    have travelled for longer, and older ones do not know of a change of the server's clock.

    A message may have been stored while the server's clock was ahead, and arrive after the clock
    was set back. So its time counts only if it is plausible after the newest reply.
    """

    _EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
    _PERIOD: Final = 60.0
    # A reply may have travelled for this long, and is behind by as much.
    _TOLERANCE: Final = timedelta(seconds=1)

    def __init__(self) -> None:
        self._began_at = 0.0
        self._offset: timedelta | None = None
        self._former_offset: timedelta | None = None
        self._offset_of_reply: timedelta | None = None

    def observe_reply(self, moment: datetime, monotonic: float) -> None:
        """`moment` is the time at which the server sent a reply that has just arrived."""
        self._offset_of_reply = moment - self._steady(monotonic)
        self._observe(self._offset_of_reply, monotonic)

    def observe_stored(self, moment: datetime, monotonic: float) -> None:
        """`moment` is when the server stored a message that has arrived by now."""
        offset, replied = moment - self._steady(monotonic), self._offset_of_reply
        if replied is None or offset <= replied + self._TOLERANCE:
            self._observe(offset, monotonic)

    def _observe(self, offset: timedelta, monotonic: float) -> None:
        if self._offset is None or monotonic - self._began_at >= self._PERIOD:
            self._former_offset, self._offset = self._offset, offset
            self._began_at = monotonic
        else:
            self._offset = max(self._offset, offset)

    def now(self, monotonic: float) -> datetime | None:
        """Returns None if nothing was observed yet."""
        known = [each for each in (self._offset, self._former_offset) if each is not None]
        return self._steady(monotonic) + max(known) if known else None

    def _steady(self, monotonic: float) -> datetime:
        return self._EPOCH + timedelta(seconds=monotonic)
