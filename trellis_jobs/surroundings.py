"""Time, identity and chance: what the pure core is given instead of taking it."""

from __future__ import annotations

import os
import random
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from trellis_jobs.model.context import fresh_traceparent
from trellis_jobs.model.identity import ulid

if TYPE_CHECKING:
    from collections.abc import Callable


def utc_now() -> datetime:
    return datetime.now(UTC)


def new_id() -> str:
    return ulid(time.time_ns() // 1_000_000, os.urandom(10))


def new_traceparent() -> str:
    return fresh_traceparent(os.urandom(24))


def uptime() -> float:
    """Seconds on a clock that goes on while the machine is suspended, unlike a monotonic one."""
    if hasattr(time, "CLOCK_BOOTTIME"):
        return time.clock_gettime(time.CLOCK_BOOTTIME)
    return time.monotonic()


@dataclass(frozen=True, slots=True)
class Surroundings:
    now: Callable[[], datetime] = utc_now
    uptime: Callable[[], float] = uptime
    new_id: Callable[[], str] = new_id
    new_traceparent: Callable[[], str] = new_traceparent
    spread: Callable[[], float] = random.random
