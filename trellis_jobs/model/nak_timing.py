"""How long a worker keeps a delayed NAK before it sends it.

A NAK with a delay restarts the timer by which the server redelivers the messages of a queue. While
more than about 100 of them arrive in a second, the server redelivers nothing: no retry that is due,
and no job of a dead worker. So workers send them together, and the timer runs freely in between.
"""

from __future__ import annotations

from typing import Final

# Delayed NAKs are sent at multiples of this many seconds, on the clock that all processes share.
BURST_INTERVAL: Final = 0.5
# The server needs at least this many seconds for any delay. A worker waits for shorter ones itself.
MIN_DELAY: Final = 0.01
# The share of the rest of its lease for which a NAK may be kept.
_LEASE_SHARE: Final = 0.5


def time_to_keep_nak(
    delay: float, *, wall_time: float, since_last: float, lease_left: float
) -> float:
    """Returns for how many seconds to keep a NAK, which is then sent with the rest of its delay.

    `since_last`: how long ago the previous delayed NAK of the same queue was decided. The first one
    after a while is sent at once, so a queue whose jobs rarely fail does not notice the bursts.
    A NAK whose job is due before the next burst is kept until then, and sent without a delay, which
    does not restart the timer.
    """
    if since_last >= BURST_INTERVAL and delay >= MIN_DELAY:
        return 0.0
    until_burst = BURST_INTERVAL - wall_time % BURST_INTERVAL
    keep = max(0.0, min(until_burst, lease_left * _LEASE_SHARE))
    return keep if delay - keep >= MIN_DELAY else delay
