"""What the driver asks of the process that enqueues, and what that answers."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Order(StrEnum):
    WARM_UP = "warm-up"
    ONE_BY_ONE = "one-by-one"
    MANY = "many"
    PACED = "paced"
    PREPARE_DRAIN = "prepare-drain"
    SETTLE = "settle"


@dataclass(frozen=True, slots=True)
class Done:
    """Nanoseconds of the machine's monotonic clock; CPU seconds of the process."""

    began: int
    ended: int
    cpu: float

    @property
    def seconds(self) -> float:
        return (self.ended - self.began) / 1e9
