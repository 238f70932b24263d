"""A clock that tests move: delays, retries, deadlines and schedules follow it."""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final, TypedDict, Unpack

from trellis_jobs.environment import utc_now

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trellis_jobs.environment import Environment
    from trellis_jobs.testing.timers import Timer, Timers

_TIMEOUT: Final = 30.0


class Duration(TypedDict, total=False):
    """The arguments of a timedelta."""

    weeks: float
    days: float
    hours: float
    minutes: float
    seconds: float
    milliseconds: float


class Clock:
    """Stands still until a test moves it: `await clock.advance(hours=9)`.

    It begins at `start`, or at the current time. Pass it to `inline` or `run_handler`. `timeout`
    limits how many real seconds one thing that became due may take, such as the try of a job.
    """

    def __init__(self, start: datetime | None = None, *, timeout: float = _TIMEOUT) -> None:
        self._now = utc_now() if start is None else _in_utc(start)
        self._timeout = timeout
        self._driven: list[Timers] = []

    def __repr__(self) -> str:
        return f"Clock({self._now.isoformat()})"

    def now(self) -> datetime:
        return self._now

    async def advance(
        self, duration: timedelta = timedelta(), /, **units: Unpack[Duration]
    ) -> None:
        """Moves the time by `duration`, or by days=, hours=, minutes=, … as in a timedelta.

        Returns when everything that became due has happened, in order of time: jobs were released
        and run, tries repeated, deadlines ended jobs. At each of these moments the clock shows
        that moment, and stands still until its jobs are over or wait again. A handler may advance
        the clock itself, to take that long.
        """
        await self.advance_to(self._now + duration + timedelta(**units))

    async def advance_to(self, moment: datetime) -> None:
        """Like `advance`, to a point in time."""
        target = _in_utc(moment)
        if target < self._now:
            raise ValueError(f"a clock cannot go back, from {self._now} to {target}")
        while (due := self._next_due(target)) is not None:
            await self._fire(*due)
        self._now = max(self._now, target)

    @contextmanager
    def driving(self, timers: Timers) -> Iterator[None]:
        """Within this block the clock fires these timers when it reaches their time."""
        self._driven.append(timers)
        try:
            yield
        finally:
            self._driven.remove(timers)

    def in_environment(self, environment: Environment) -> Environment:
        """Retries get no random extra delay, so that a test knows when they are due.

        The monotonic clock remains that of the machine: it measures leases, and in memory no
        worker renews them.
        """
        return replace(environment, now=self.now, random=lambda: 0.0, server_time=None)

    def _next_due(self, target: datetime) -> tuple[Timer, Timers] | None:
        """Returns the earliest timer, or None if none is due until then."""
        waiting = [(timers.next, timers) for timers in self._driven]
        due = [(timer, timers) for timer, timers in waiting if timer and timer.at <= target]
        return min(due, key=lambda each: each[0], default=None)

    async def _fire(self, timer: Timer, timers: Timers) -> None:
        self._now = max(self._now, timer.at)
        try:
            async with asyncio.timeout(self._timeout):
                await timers.fire_next()
        except TimeoutError:
            raise TimeoutError(
                f"{timer.what}, due at {timer.at}, took longer than {self._timeout:g} s. The clock "
                "stands still meanwhile: a handler that waits for a later time waits forever"
            ) from None


def _in_utc(moment: datetime) -> datetime:
    if moment.tzinfo is None:
        raise ValueError(f"{moment} needs a time zone: datetime(2027, 1, 1, tzinfo=UTC)")
    return moment.astimezone(UTC)
