"""Keeps the delayed NAKs of one queue, and sends them in bursts (see `model/nak_timing.py`)."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from datetime import timedelta
from math import inf
from typing import TYPE_CHECKING, Final

from trellis_jobs.model.nak_timing import MIN_DELAY, time_to_keep_nak

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from trellis_jobs.jetstream.client.connection import Connection
    from trellis_jobs.jetstream.work.delivery import Delivery

log = logging.getLogger(__name__)

# Event loops round the times of timers to milliseconds. Later is better than early: a job that is
# delivered before it is due must be put back.
_TIMER_TOLERANCE: Final = 0.001
# Seconds until a NAK is sent that found no room in the outbound buffer.
_RETRY_DELAY: Final = 0.1


@dataclass(eq=False, slots=True)
class _KeptNak:
    """`due_at`: when the message is to be redelivered, on the monotonic clock."""

    delivery: Delivery
    due_at: float
    timer: asyncio.TimerHandle | None = None

    @property
    def message(self) -> str:
        return self.delivery.delivered.work


class DelayedNaks:
    """At most one NAK is kept for each message: that of its newest delivery.

    If the process dies, the NAKs that it has kept are lost, and the server redelivers their
    messages when the leases end. The log has the times of the next tries, so no job is lost and
    none starts early.
    """

    def __init__(
        self, connection: Connection, now: Callable[[], datetime], monotonic: Callable[[], float]
    ) -> None:
        self._connection = connection
        self._now = now
        self._monotonic = monotonic
        self._loop = asyncio.get_running_loop()
        self._kept: dict[str, _KeptNak] = {}
        self._last_at = -inf
        self._is_flushed = False

    def add(self, delivery: Delivery, delay: timedelta) -> None:
        """Answers the delivery with a NAK, so that the server redelivers it after `delay`."""
        now, seconds, keep = self._monotonic(), delay.total_seconds(), 0.0
        if not self._is_flushed:
            keep = time_to_keep_nak(
                seconds,
                wall_time=self._now().timestamp(),
                since_last=now - self._last_at,
                lease_left=delivery.lease.left(now),
            )
        self._last_at = now
        nak = _KeptNak(delivery, now + seconds)
        self._forget(nak.message)
        if keep > 0:
            self._keep(nak, keep)
        else:
            self._send(nak)

    def flush(self) -> None:
        """Sends all NAKs now, and from now on each at once, because the worker stops."""
        self._is_flushed = True
        for nak in self._take_all():
            self._send(nak)
        if self._kept:
            _log_unsent(len(self._kept))

    def reconnected(self) -> None:
        """Sends the NAKs of jobs that are not due yet, and drops the others.

        A server that was killed may have forgotten its last deliveries and delivered these jobs
        again. Those that are due may run elsewhere, and a NAK would take them away (design D7).
        """
        now, dropped = self._monotonic(), 0
        for nak in self._take_all():
            if nak.due_at - now >= MIN_DELAY:
                self._send(nak)
            else:
                dropped += 1
        if dropped:
            _log_unsent(dropped)

    def _send(self, nak: _KeptNak) -> None:
        """Sends the NAK with the rest of its delay, or keeps it until that is possible."""
        rest = nak.due_at - self._monotonic()
        if not self._connection.is_connected:
            self._kept[nak.message] = nak
        elif 0 < rest < MIN_DELAY and not self._is_flushed:
            self._keep(nak, rest)
        elif nak.delivery.nak_nowait(timedelta(seconds=max(0.0, rest))):
            self._kept.pop(nak.message, None)
        else:
            self._keep(nak, _RETRY_DELAY)

    def _keep(self, nak: _KeptNak, seconds: float) -> None:
        self._kept[nak.message] = nak
        nak.timer = self._loop.call_later(seconds + _TIMER_TOLERANCE, self._send, nak)

    def _take_all(self) -> list[_KeptNak]:
        kept = list(self._kept.values())
        for nak in kept:
            self._forget(nak.message)
        return kept

    def _forget(self, message: str) -> None:
        nak = self._kept.pop(message, None)
        if nak is not None and nak.timer is not None:
            nak.timer.cancel()


def _log_unsent(count: int) -> None:
    log.warning(
        "%s jobs are tried again later than planned, when their leases end, because their NAKs "
        "could not be sent in time",
        count,
        extra={"count": count},
    )
