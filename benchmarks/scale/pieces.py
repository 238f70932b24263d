"""The pieces that can be measured one by one, and the file in which their figures gather."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from benchmarks.report import Report, Say
from benchmarks.scale import capacity, conditions, depth, purging, storage, workers
from benchmarks.scale.server import version
from benchmarks.scale.sheets import Sheet
from benchmarks.scale.size import Size

RESULTS: Final = Path(__file__).parent.parent / "results" / "scale.json"


@dataclass(frozen=True, slots=True)
class Piece:
    measure: Callable[[Size, Say], Report]
    sheets: Callable[[Report], list[Sheet]]


PIECES: Final = {
    "storage": Piece(storage.measure, storage.sheets),
    "depth": Piece(depth.measure, depth.sheets),
    "workers": Piece(workers.measure, workers.sheets),
    "purging": Piece(purging.measure, purging.sheets),
    "consumers": Piece(conditions.measure_consumers, conditions.consumers_sheets),
    "syncing": Piece(conditions.measure_syncing, conditions.syncing_sheets),
    "replicas": Piece(conditions.measure_replicas, conditions.replicas_sheets),
}


def measure(names: Iterable[str], size: Size, say: Say, path: Path) -> None:
    """Each is written down once it is there, beside what earlier runs have found of the others."""
    path.parent.mkdir(parents=True, exist_ok=True)
    for name in names:
        figures = PIECES[name].measure(size, say)
        found = read(path) | {name: {**_circumstances(), "figures": figures}}
        path.write_text(json.dumps(found, indent=2) + "\n")


def read(path: Path) -> Report:
    found: Report = json.loads(path.read_text()) if path.exists() else {}
    return found


def sheets(found: Report) -> list[Sheet]:
    """Of everything that was found; how much a server holds follows from what a job weighs."""
    shown = [
        one
        for name, piece in PIECES.items()
        if name in found
        for one in piece.sheets(found[name]["figures"])
    ]
    if "storage" in found and "depth" in found:
        each = capacity.burden(found["storage"]["figures"], found["depth"]["figures"])
        shown += capacity.sheets(capacity.capacity(each))
    return shown


def _circumstances() -> Report:
    return {
        "measured_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "python": platform.python_version(),
        "server": version(),
        "cores": os.cpu_count(),
    }
