"""What processes have used so far, and what the machine has, as Linux counts it."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

PROC: Final = Path("/proc")
TICKS: Final = os.sysconf("SC_CLK_TCK")
# Columns of /proc/<pid>/stat behind the program's name.
PARENT: Final = 1
USER_TO_REAPED: Final = slice(11, 15)
# Columns of /proc/stat.
IDLE: Final = slice(3, 5)
GUEST: Final = 8


@dataclass(frozen=True, slots=True)
class CpuSeconds:
    """Of the whole machine, and of those that take part."""

    busy: float
    workers: float
    servers: float

    def since(self, before: CpuSeconds) -> CpuSeconds:
        return CpuSeconds(
            self.busy - before.busy, self.workers - before.workers, self.servers - before.servers
        )


def cpu_seconds(workers: Iterable[int], servers: Iterable[int]) -> CpuSeconds:
    return CpuSeconds(_busy_seconds(), cpu_of(workers), cpu_of(servers))


def family(roots: Iterable[int]) -> list[int]:
    """These processes and all that descend from them, parents first."""
    children = defaultdict(list)
    for folder in PROC.iterdir():
        if folder.name.isdigit() and (columns := _columns_of(int(folder.name))):
            children[int(columns[PARENT])].append(int(folder.name))
    found = list(roots)
    for pid in found:
        found += children[pid]
    return found


def largest_megabytes(roots: Iterable[int]) -> float:
    """Resident memory of the largest of these processes and their descendants."""
    return max(resident_kilobytes(pid) for pid in family(roots)) / 1024


def cpu_of(roots: Iterable[int]) -> float:
    ticks = (columns[USER_TO_REAPED] for pid in family(roots) if (columns := _columns_of(pid)))
    return sum(int(part) for parts in ticks for part in parts) / TICKS


def resident_kilobytes(pid: int) -> int:
    try:
        lines = (PROC / str(pid) / "status").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith("VmRSS:")), 0)


def _busy_seconds() -> float:
    counted = [int(ticks) for ticks in (PROC / "stat").read_text().splitlines()[0].split()[1:]]
    return (sum(counted[:GUEST]) - sum(counted[IDLE])) / TICKS


def _columns_of(pid: int) -> list[str] | None:
    """None when the process is gone."""
    try:
        line = (PROC / str(pid) / "stat").read_text()
    except OSError:
        return None
    return line.rpartition(")")[2].split()
