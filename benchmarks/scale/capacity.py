"""How many jobs a day a server holds: calculated from what they weigh and how long they stay."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from benchmarks.report import Report
from benchmarks.scale.sheets import Sheet, sheet
from jobs_admin.retention_policy import standard
from trellis_jobs.contract.topology import LOG
from trellis_jobs.model.states import JobState

# How jobs end, where nothing else is known.
ENDS: Final[Mapping[JobState, float]] = {
    JobState.COMPLETED: 0.989,
    JobState.FAILED: 0.01,
    JobState.DEAD: 0.001,
}
GIGABYTE: Final = 2**30
FOR_THE_REST: Final = 1 * GIGABYTE


@dataclass(frozen=True, slots=True)
class Machine:
    memory: int
    disk: int


SMALL: Final = Machine(memory=4 * GIGABYTE, disk=100 * GIGABYTE)


def days_kept(ends: Mapping[JobState, float] = ENDS) -> float:
    """Of a job on average, at the default retention."""
    return sum(share * _kept(state).days for state, share in ends.items())


@dataclass(frozen=True, slots=True)
class Burden:
    """Bytes of one finished job: of a server that works, in the log, in the projection's file."""

    memory: float
    log: float
    row: float


def burden(storage: Report, depth: Report) -> Burden:
    """Memory by a server that has many jobs and has just worked: caches and garbage included."""
    worked = depth["moments"]["worked"]
    return Burden(
        worked["resident"] / worked["jobs"], storage["bytes"]["finished"][LOG], storage["row"]
    )


def capacity(each: Burden, machine: Machine = SMALL) -> Report:
    days = days_kept()
    by_memory = (machine.memory - FOR_THE_REST) / each.memory
    by_disk = machine.disk / each.log
    held = min(by_memory, by_disk)
    return {
        "days_kept": days,
        "held_by_memory": by_memory,
        "held_by_disk": by_disk,
        "jobs_a_day": held / days,
        "disk": held * each.log,
        "projection": held * each.row,
    }


def _kept(state: JobState) -> timedelta:
    age = standard().ages[state]
    assert age is not None
    return age


def sheets(found: Report) -> list[Sheet]:
    return [
        sheet(
            "capacity",
            "one server with 4 GB, calculated",
            ("", ""),
            (
                ("days that a job is kept, on average", f"{found['days_kept']:.2f}"),
                ("jobs that fit into 3 GB of memory", f"{found['held_by_memory']:,.0f}"),
                ("jobs that fit on 100 GB of disk", f"{found['held_by_disk']:,.0f}"),
                ("**jobs a day**", f"**{found['jobs_a_day']:,.0f}**"),
                ("the log on disk then", f"{found['disk'] / 1e9:.1f} GB"),
                ("a projection's file then", f"{found['projection'] / 1e9:.1f} GB"),
            ),
        )
    ]
