"""The server's time, by which the age of stored messages is measured.

The admin runtime uses `ServerClock`. Services use `CorrectedClock`: the machine's clock, corrected
when it differs notably from the server's.
"""

from __future__ import annotations

import asyncio
import logging
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

from trellis_jobs.errors import JobsError, NotPermitted
from trellis_jobs.jetstream.client.server_info import clock_difference
from trellis_jobs.model.clock_offset import MAX_ROUND_TRIP, correction
from trellis_jobs.model.durations import format_duration

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from trellis_jobs.jetstream.client.connection import Connection

log = logging.getLogger(__name__)

_REFRESH_INTERVAL: Final = 30.0
_REQUEST_TIMEOUT: Final = 2.0
_MEASURE_INTERVAL: Final = 60.0
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class ServerClock:
    """Reads the server's time periodically; in between, the monotonic clock continues from it."""

    def __init__(self, connection: Connection, monotonic: Callable[[], float]) -> None:
        self._connection = connection
        self._monotonic = monotonic
        self._offset: timedelta | None = None
        self._refreshed_at = 0.0

    async def now(self) -> datetime:
        """Raises NotConfirmed and other errors only before the first reply."""
        if self._offset is None:
            self._offset = await self._measure_offset()
        elif self._monotonic() - self._refreshed_at >= _REFRESH_INTERVAL:
            try:
                async with asyncio.timeout(_REQUEST_TIMEOUT):
                    self._offset = await self._measure_offset()
            except (JobsError, TimeoutError) as error:
                log.info(
                    "server time unavailable, using the last known offset: %s",
                    error,
                    extra={"error": str(error)},
                )
        return self._steady() + self._offset

    def last_known(self) -> datetime:
        """The server's time by the last reply, without a request. Call `now` once before."""
        if self._offset is None:
            raise RuntimeError("the server's time was never read")
        return self._steady() + self._offset

    async def _measure_offset(self) -> timedelta:
        self._refreshed_at = self._monotonic()
        return await clock_difference(self._connection, self._steady)

    def _steady(self) -> datetime:
        return _EPOCH + timedelta(seconds=self._monotonic())


class CorrectedClock:
    """The clock of this machine, corrected when it differs notably from the server's.

    `calls` are JetStream API calls whose replies contain the server's time. The clock uses the
    first that is permitted and succeeds. `observe` is called with the time in each reply.
    """

    def __init__(
        self,
        machine_clock: Callable[[], datetime],
        calls: Iterable[str],
        observe: Callable[[datetime], None] = lambda _: None,
    ) -> None:
        self._machine_clock = machine_clock
        self._calls = list(calls)
        self._observe = observe
        self._correction = timedelta()
        self._measured: timedelta | None = None

    def now(self) -> datetime:
        return (
            self._machine_clock() + self._correction if self._correction else self._machine_clock()
        )

    def ahead(self) -> timedelta | None:
        """Returns how far this machine's clock is ahead of the server's, or None if unknown."""
        return None if self._measured is None else -self._measured

    async def keep_measuring(self, connection: Connection) -> None:
        while True:
            await asyncio.sleep(_MEASURE_INTERVAL)
            if connection.is_connected:
                await self.measure(connection)

    async def measure(self, connection: Connection) -> None:
        """Never raises: without a reply the correction stays as it is."""
        for call in list(self._calls):
            started_at = self._machine_clock()
            try:
                async with asyncio.timeout(_REQUEST_TIMEOUT):
                    measured = await clock_difference(
                        connection, self._machine_clock, call, self._observe
                    )
                if timedelta() <= self._machine_clock() - started_at <= MAX_ROUND_TRIP:
                    self._update_correction(measured)
                return
            except NotPermitted:
                self._calls.remove(call)
            except (JobsError, TimeoutError, LookupError, ValueError) as error:
                log.debug("cannot read the server's time from %s: %s", call, error)

    def _update_correction(self, measured: timedelta) -> None:
        before, self._measured = self._correction, measured
        self._correction = correction(measured, before)
        if self._correction and self._correction != before:
            log.warning(
                "the clock of this machine is %s the server's: times of jobs are corrected by "
                "that; set the clock (NTP)",
                _difference(-measured),
            )
        elif before and not self._correction:
            log.warning("the clock of this machine agrees with the server's again")


def _difference(ahead: timedelta) -> str:
    """Rounded, because a measurement is accurate to half a round trip: `2 h`, not `1 h 59 min`."""
    where = "ahead of" if ahead > timedelta() else "behind"
    return f"{format_duration(timedelta(seconds=round(abs(ahead).total_seconds())))} {where}"
