"""Time, identity and chance: what the pure core is given instead of taking it."""

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


# Both clocks are read several times for each job, so neither call has a Python frame.
utc_now: Final[Callable[[], datetime]] = functools.partial(datetime.now, UTC)
# Seconds on a clock that continues while the machine is suspended, unlike a monotonic clock.
monotonic: Final[Callable[[], float]] = (
    functools.partial(time.clock_gettime, time.CLOCK_BOOTTIME)
    if hasattr(time, "CLOCK_BOOTTIME")
    else time.monotonic
)


# Not the module's own, which a program may seed so that every process of it draws the same.
_chance: Final = random.Random()  # noqa: S311 (to be unique, not secret)
os.register_at_fork(after_in_child=_chance.seed)


def new_id() -> str:
    return ulid(time.time_ns() // 1_000_000, _chance.getrandbits(80))


def new_traceparent() -> str:
    return fresh_traceparent(_chance.getrandbits(192))


@functools.cache
def own_version() -> str:
    """Of trellis-jobs, as it is installed here."""
    return metadata.version("trellis-jobs")


@dataclass(frozen=True, slots=True)
class Environment:
    now: Callable[[], datetime] = utc_now
    monotonic: Callable[[], float] = monotonic
    new_id: Callable[[], str] = new_id
    new_traceparent: Callable[[], str] = new_traceparent
    random: Callable[[], float] = random.random
    # How far the machine's clock is ahead of the server's, where that is measured.
    clock_ahead: Callable[[], timedelta | None] = lambda: None
