"""What processes weigh while they work: at the beginning, at most, and in the end."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from benchmarks.peers.usage import resident_kilobytes

_POLL_INTERVAL: Final = 0.25
_TCP: Final = Path("/proc/net/tcp")
_ESTABLISHED: Final = "01"


@dataclass
class Weight:
    """Megabytes of the heaviest process of a kind."""

    first: float = 0.0
    peak: float = 0.0
    last: float = 0.0

    def see(self, megabytes: float) -> None:
        self.first = self.first or megabytes
        self.peak = max(self.peak, megabytes)
        self.last = megabytes

    @property
    def grown(self) -> float:
        return self.peak - self.first


@dataclass
class Scales:
    """`pids` by the kind of process."""

    pids: Mapping[str, Sequence[int]]
    weights: dict[str, Weight] = field(default_factory=dict)

    async def watch(self) -> None:
        while True:
            self.look()
            await asyncio.sleep(_POLL_INTERVAL)

    def look(self) -> None:
        for kind, pids in self.pids.items():
            heaviest = max(map(resident_kilobytes, pids)) / 1024
            if heaviest:  # who has ended weighs nothing
                self.weights.setdefault(kind, Weight()).see(heaviest)


def connections_to(port: int) -> int:
    """How many clients a server on this machine has."""
    local = f":{port:04X}"
    lines = (line.split() for line in _TCP.read_text().splitlines()[1:])
    return sum(line[1].endswith(local) and line[3] == _ESTABLISHED for line in lines)
