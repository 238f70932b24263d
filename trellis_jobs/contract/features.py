"""The features of the connected server, determined from its JetStream API level."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

# The api.level in the reply of `$JS.API.INFO`; 2.10 has none. Features cannot be detected by trying
# them, because older servers silently accept unknown fields.
LEVEL_2_11: Final = 1
LEVEL_2_12: Final = 2
LEVEL_2_14: Final = 4


@dataclass(frozen=True, slots=True)
class Feature:
    """`without` describes the effect if the server lacks the feature."""

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
        "events are appended after a read, so two writers of one job can race",
    ),
    Feature("message TTL", "2.11", LEVEL_2_11, "worker heartbeats stay in the log until purged"),
    Feature("consumer pause", "2.11", LEVEL_2_11, "queues cannot be paused"),
    Feature(
        "atomic batches",
        "2.12",
        LEVEL_2_12,
        "a replaced job may run at the same time as its replacement",
    ),
    Feature(
        "message schedules",
        "2.12",
        LEVEL_2_12,
        "delayed jobs wait as delayed redeliveries, and start seconds late when more than about "
        "100 of them per second are due",
    ),
    Feature(
        "fast batches",
        "2.14",
        LEVEL_2_14,
        "create_many takes half as long again, because the server confirms every job",
    ),
    Feature(
        "durable sourcing",
        "2.14",
        LEVEL_2_14,
        "finished jobs may be enqueued again after a server restart; workers discard them",
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
    def message_schedules(self) -> bool:
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
        """Descriptions of the missing features, which are logged at startup."""
        return [str(feature) for feature in self.missing()]
