"""What the connected server can do: decided once, from its JetStream API level."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

# `$JS.API.INFO` → api.level; 2.10 has none. Older servers accept unknown fields in silence, so
# nothing may be tried on them just to see.
LEVEL_2_11: Final = 1
LEVEL_2_12: Final = 2
LEVEL_2_14: Final = 4


@dataclass(frozen=True, slots=True)
class Feature:
    """`without`: what it means that a server does not have it."""

    name: str
    version: str
    level: int
    without: str

    def __str__(self) -> str:
        return f"{self.name} ({self.version}): {self.without}"


FEATURES: Final = (
    Feature(
        "guarded appends",
        "2.11",
        LEVEL_2_11,
        "events are appended after a read instead, so two writers of one job can race",
    ),
    Feature("message TTL", "2.11", LEVEL_2_11, "worker heartbeats stay in the log until purged"),
    Feature("consumer pause", "2.11", LEVEL_2_11, "queues cannot be paused"),
    Feature(
        "atomic batches",
        "2.12",
        LEVEL_2_12,
        "a replaced job may run beside its replacement",
    ),
    Feature(
        "fast batches",
        "2.14",
        LEVEL_2_14,
        "every job of a create_many is answered, which takes half as long again",
    ),
    Feature(
        "durable sourcing",
        "2.14",
        LEVEL_2_14,
        "finished jobs may be enqueued again after a server restart; workers drop them",
    ),
)


@dataclass(frozen=True, slots=True)
class Features:
    version: str
    level: int

    @property
    def guarded_appends(self) -> bool:
        return self.level >= LEVEL_2_11

    @property
    def message_ttl(self) -> bool:
        return self.level >= LEVEL_2_11

    @property
    def consumer_pause(self) -> bool:
        return self.level >= LEVEL_2_11

    @property
    def atomic_batches(self) -> bool:
        return self.level >= LEVEL_2_12

    @property
    def fast_batches(self) -> bool:
        return self.level >= LEVEL_2_14

    @property
    def durable_sourcing(self) -> bool:
        return self.level >= LEVEL_2_14

    def missing(self) -> list[Feature]:
        return [feature for feature in FEATURES if self.level < feature.level]

    def lacks(self) -> list[str]:
        """What this server cannot do, and what that means, for the log at start."""
        return [str(feature) for feature in self.missing()]
