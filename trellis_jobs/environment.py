"""Clocks, ids and random numbers, injected so that the core is deterministic in tests."""

from __future__ import annotations

import functools
import os
import random
import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from importlib import metadata
from typing import TYPE_CHECKING, Final

from trellis_jobs.model.context import fresh_traceparent
from trellis_jobs.model.identity import ulid

if TYPE_CHECKING:
    from collections.abc import Callable

    from trellis_jobs.model.clock_offset import ServerTime


# Both clocks are read several times for each job, so neither call has a Python frame.
utc_now: Final[Callable[[], datetime]] = functools.partial(datetime.now, UTC)
# Seconds on a monotonic clock that also counts the time while the machine is suspended.
monotonic: Final[Callable[[], float]] = (
    functools.partial(time.clock_gettime, time.CLOCK_BOOTTIME)
    if hasattr(time, "CLOCK_BOOTTIME")
    else time.monotonic
)


# A separate generator: a program may seed the random module, and all its processes would then
# create the same ids.
_random: Final = random.Random()  # noqa: S311 - ids must be unique, not secret
os.register_at_fork(after_in_child=_random.seed)


def new_id() -> str:
    return ulid(time.time_ns() // 1_000_000, _random.getrandbits(80))


def new_traceparent() -> str:
    return fresh_traceparent(_random.getrandbits(192))


@functools.cache
def own_version() -> str:
    """The installed version of trellis-jobs."""
    return metadata.version("trellis-jobs")


@dataclass(frozen=True, slots=True)
class Environment:
    now: Callable[[], datetime] = utc_now
    monotonic: Callable[[], float] = monotonic
    new_id: Callable[[], str] = new_id
    new_traceparent: Callable[[], str] = new_traceparent
    random: Callable[[], float] = random.random
    # How far the machine's clock is ahead of the server's. None if it is not measured.
    clock_ahead: Callable[[], timedelta | None] = lambda: None
    # The server's time, for what must not happen early. None if no server is connected.
    server_time: ServerTime | None = None

    def server_now(self) -> datetime:
        """A time that the server's clock has reached, or `now` if that is not known."""
        known = None if self.server_time is None else self.server_time.now(self.monotonic())
        return self.now() if known is None else known

    def observe_reply(self, moment: datetime) -> None:
        """`moment` is the time of the server in a reply that has just arrived."""
        if self.server_time is not None:
            self.server_time.observe_reply(moment, self.monotonic())

    def observe_stored(self, moment: datetime) -> None:
        """`moment` is when the server stored a message that has just arrived."""
        if self.server_time is not None:
            self.server_time.observe_stored(moment, self.monotonic())
