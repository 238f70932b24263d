"""The order in which the queues of a worker process get free slots: strict, or by weights."""

from __future__ import annotations

from math import lcm
from typing import TYPE_CHECKING, TypeAlias

from trellis_jobs.model.values import Value, replace

if TYPE_CHECKING:
    from collections.abc import Sequence


class StrictOrder(Value, frozen=True):
    """The first queue that has a job is next. Later queues wait as long as it has jobs."""

    def first(self, queues: Sequence[int]) -> int:
        return min(queues)

    def started(self, queue: int) -> StrictOrder:
        return self


class WeightedOrder(Value, frozen=True):
    """The queue with the lowest turn is next, and each start moves its turn by its stride.

    The stride is the inverse of the weight, so the starts of queues that always have jobs are
    proportional to their weights. `clock` is the turn of the newest start: a queue that had no
    jobs for a while continues from there and does not make up for the starts that it missed.
    """

    turns: tuple[int, ...]
    strides: tuple[int, ...]
    clock: int = 0

    def first(self, queues: Sequence[int]) -> int:
        return min(queues, key=lambda queue: (max(self.turns[queue], self.clock), queue))

    def started(self, queue: int) -> WeightedOrder:
        turn = max(self.turns[queue], self.clock)
        moved = (*self.turns[:queue], turn + self.strides[queue], *self.turns[queue + 1 :])
        return replace(self, turns=moved, clock=turn)


QueueOrder: TypeAlias = StrictOrder | WeightedOrder


def weighted_order(weights: Sequence[int]) -> WeightedOrder:
    """The weights are positive, one for each queue."""
    scale = lcm(*weights)
    strides = tuple(scale // weight for weight in weights)
    return WeightedOrder(turns=strides, strides=strides)


class SharedLimit(Value, frozen=True):
    """How many jobs all queues of a process run at once, and which queue gets a free slot."""

    total: int
    order: QueueOrder
