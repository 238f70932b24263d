"""One trial: who does what, how often and with which servers. Handed to other processes as JSON.

Imported in the environments of all tools, so it needs nothing but Python.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Final

VARIABLE: Final = "PEERS_TRIAL"


class Mode(StrEnum):
    """Of the peers; ours has but one mode, which keeps everything."""

    LEAN = "lean"  # the tool's defaults, results off
    FULL = "full"  # at least once, results stored


class Broker(StrEnum):
    REDIS = "redis"
    RABBITMQ = "rabbitmq"
    POSTGRES = "postgres"
    NATS = "nats"


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    tool: str
    mode: Mode
    jobs: int
    seconds: float  # that a handler waits; 0: it returns at once
    processes: int
    concurrency: int
    moments: str  # the file of `Moments`
    addresses: Mapping[Broker, str]

    @property
    def is_full(self) -> bool:
        return self.mode is Mode.FULL

    @property
    def waits(self) -> bool:
        return self.seconds > 0

    def to_environment(self) -> dict[str, str]:
        return {VARIABLE: json.dumps(asdict(self))}

    @classmethod
    def from_environment(cls) -> Trial:
        said = json.loads(os.environ[VARIABLE])
        addresses = {Broker(broker): address for broker, address in said["addresses"].items()}
        return cls(**{**said, "mode": Mode(said["mode"]), "addresses": addresses})
