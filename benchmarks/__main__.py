"""`python -m benchmarks`: measure, print a table, write JSON."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Final

from rich.console import Console

from benchmarks.report import report, table
from benchmarks.rounds import QUICK, USUAL, Bench
from benchmarks.traffic import MONITORED, Traffic
from trellis_jobs.embedded import EmbeddedServer

LATEST: Final = Path(__file__).parent / "results" / "latest.json"


def main() -> None:
    options = _options()
    size, console = QUICK if options.quick else USUAL, Console()
    with EmbeddedServer.start(config=MONITORED) as server:
        traffic = Traffic(server.store)
        with console.status("starting") as status:
            rounds = Bench(server.url, traffic, size).run(status.update)
        measured = report(rounds, size, traffic.server_version())
    options.json.parent.mkdir(parents=True, exist_ok=True)
    options.json.write_text(json.dumps(measured, indent=2) + "\n")
    console.print(table(measured))
    console.print(f"written to {options.json}")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="only try that everything runs")
    parser.add_argument("--json", type=Path, default=LATEST, help="where to write the figures")
    return parser.parse_args()


if __name__ == "__main__":
    main()
