"""What faults of every kind are carried out with."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias, TypeVar

from tests.chaos.faults import Fault, Injection
from tests.chaos.stage import Stage
from trellis_jobs.jetstream.client.connection import Connection

T = TypeVar("T")

A_WHILE: Final = 15.0
_POLL_INTERVAL: Final = 0.05

Act: TypeAlias = Callable[[Injection], Coroutine[Any, Any, None]]
Acts: TypeAlias = Mapping[Fault, Act]


@dataclass
class Injecting:
    """`connection` reaches the servers past all faults. `done`: faults that had a target.

    `timeout`: seconds for which a fault waits for a target.
    """

    stage: Stage
    connection: Connection
    timeout: float = A_WHILE
    done: Counter[Fault] = field(default_factory=Counter)
    is_over: bool = False

    def count(self, injection: Injection) -> None:
        self.done[injection.fault] += 1

    async def meets(self, victim: Callable[[], bool]) -> bool:
        """A fault without a target waits a while for one."""
        end = time.monotonic() + self.timeout
        while not victim():
            if time.monotonic() > end:
                return False
            await asyncio.sleep(_POLL_INTERVAL)
        return True


def pick(some: Sequence[T], injection: Injection) -> T:
    return some[injection.pick % len(some)]


def pick_too(some: Sequence[T], injection: Injection) -> T:
    """A second choice, which does not depend on the first."""
    return some[injection.pick // 1009 % len(some)]
