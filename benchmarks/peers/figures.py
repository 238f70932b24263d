"""What measurements found, kept in a file that grows with each of them."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any


class Figure(StrEnum):
    JOBS_PER_SECOND = "jobs_per_second"
    SECONDS = "seconds"
    TIMES_IDEAL = "times_ideal"  # of jobs that wait: seconds, by what waiting alone takes
    SETTLED_SECONDS = "settled_seconds"  # until the server held no job any more
    PICKUP_P50 = "pickup_p50_ms"
    PICKUP_P99 = "pickup_p99_ms"
    PRODUCER_CPU = "producer_cpu_us"  # a job, as the next two
    WORKER_CPU = "worker_cpu_us"
    SERVER_CPU = "server_cpu_us"
    WORKER_MEGABYTES = "worker_mb"
    OTHERS_CORES = "others_cores"  # cores kept busy by processes that have no part in it
    RUN_TWICE = "run_twice"


Figures = dict[Figure, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    round: int
    contestant: str
    cell: str
    jobs: int
    figures: Figures
    failed: str | None = None

    @classmethod
    def from_json(cls, said: dict[str, Any]) -> Measurement:
        figures = {Figure(name): value for name, value in said["figures"].items()}
        return cls(**{**said, "figures": figures})


class Results:
    """All measurements so far; each is in the file as soon as it is added."""

    def __init__(
        self, path: Path, about: Mapping[str, str], measurements: Iterable[Measurement] = ()
    ) -> None:
        self._path = path
        self.about = about  # the machine and what runs on it
        self.measurements = list(measurements)

    @classmethod
    def read(cls, path: Path) -> Results:
        said = json.loads(path.read_text())
        measurements = [Measurement.from_json(one) for one in said["measurements"]]
        return cls(path, said["about"], measurements)

    def add(self, measurement: Measurement) -> None:
        self.measurements = [one for one in self.measurements if _place(one) != _place(measurement)]
        self.measurements.append(measurement)
        self._write()

    def has(self, round_: int, contestant: str, cell: str) -> bool:
        """Measured, with a result."""
        return any(
            _place(one) == (round_, contestant, cell) and one.failed is None
            for one in self.measurements
        )

    def _write(self) -> None:
        """Whole or not at all: an interrupted run can be continued."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        new = self._path.with_suffix(".new")
        said = {"about": self.about, "measurements": [asdict(one) for one in self.measurements]}
        new.write_text(json.dumps(said, indent=1) + "\n")
        os.replace(new, self._path)


def _place(measurement: Measurement) -> tuple[int, str, str]:
    return measurement.round, measurement.contestant, measurement.cell
