"""The crash points that scenarios pass, as they did when passed.json was written.

What only chance passes is not in it, nor how often a point is passed: both differ from run to run.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from tests.crash_points.campaign import Kill, Passed
from tests.crash_points.points import Side
from tests.crash_points.tripwire import Trap
from tests.crash_points.unpassed import BY_CHANCE

FILE: Final = Path(__file__).with_name("passed.json")
# Each has its deaths in every sample.
AREAS: Final = (
    "trellis_jobs.worker.",
    "trellis_jobs.producer.",
    "trellis_jobs.jetstream.keys.",
    "jobs_admin.",
)

# The scenarios that pass a point, by its name.
Record = Mapping[str, list[str]]


def read() -> Record:
    recorded: Record = json.loads(FILE.read_bytes())
    return recorded


def write(record: Record) -> None:
    """A line for each point."""
    lines = (f"  {json.dumps(point)}: {json.dumps(record[point])}" for point in record)
    FILE.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


def made_of(passed: Passed) -> Record:
    made: dict[str, list[str]] = {}
    for scenario, counted in passed.items():
        for point in {way.partition(" ")[2] for way in counted} - BY_CHANCE:
            made.setdefault(point, []).append(scenario)
    return {point: sorted(made[point]) for point in sorted(made)}


def lacking(recorded: Record, seen: Record) -> list[str]:
    """What is not passed at all: which scenarios meet at a point is partly chance."""
    return sorted(set(recorded) - set(seen))


def sample(recorded: Record) -> Iterator[Kill]:
    """Two deaths in each area, each when its point is passed for the first time."""
    for area in AREAS:
        points = [point for point in recorded if point.startswith(area)]
        third = len(points) // 3
        for point, side in ((points[third], Side.BEFORE), (points[2 * third], Side.AFTER)):
            yield Kill(recorded[point][0], Trap(point, side))
