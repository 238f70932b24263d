"""What faults of every kind are carried out with."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias, TypeVar

from tests.chaos.faults import Fault, Injection
from tests.chaos.stage import Stage
from trellis_jobs.jetstream.connection import Connection

T = TypeVar("T")

Act: TypeAlias = Callable[[Injection], Coroutine[Any, Any, None]]
Acts: TypeAlias = Mapping[Fault, Act]


@dataclass
class Injecting:
    """`connection` reaches the servers past all faults. `done`: those that struck somebody."""

    stage: Stage
    connection: Connection
    done: Counter[Fault] = field(default_factory=Counter)
    is_over: bool = False

    def count(self, injection: Injection) -> None:
        self.done[injection.fault] += 1


def pick(some: Sequence[T], injection: Injection) -> T:
    return some[injection.pick % len(some)]


def pick_too(some: Sequence[T], injection: Injection) -> T:
    """A second choice, which does not depend on the first."""
    return some[injection.pick // 1009 % len(some)]
