"""`python -m benchmarks.peers`: measure ours and the peers, print tables, draw a chart."""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, TypeVar

from benchmarks.peers import rounds
from benchmarks.peers.cells import CELLS, Cell
from benchmarks.peers.chart import chart
from benchmarks.peers.contestants import CONTESTANTS, OURS, Contestant
from benchmarks.peers.figures import Results
from benchmarks.peers.installing import install
from benchmarks.peers.machine import about
from benchmarks.peers.report import report
from benchmarks.peers.stage import ROOT
from benchmarks.peers.summary import Summary

RESULTS: Final = ROOT / "benchmarks" / "results"
CHART: Final = ROOT / "docs" / "images" / "peers.svg"
QUICK_JOBS: Final = 60
INTERRUPTED: Final = 130

T = TypeVar("T")


def main() -> int:
    options = _options()
    path = options.json or RESULTS / ("peers-quick.json" if options.quick else "peers.json")
    try:
        results = Results.read(path) if options.report_only else _measured(options, path)
    except KeyboardInterrupt:
        print("interrupted; --continue measures the rest", file=sys.stderr)
        return INTERRUPTED
    print(report(results))
    if drawn := options.chart or (None if _is_partial(options) else CHART):
        drawn.parent.mkdir(parents=True, exist_ok=True)
        drawn.write_text(chart(Summary(results.measurements)))
    return 0


def _measured(options: argparse.Namespace, path: Path) -> Results:
    signal.signal(signal.SIGTERM, _interrupt)
    install(options.peers, _say)
    if options.go_on and path.exists():
        results = Results.read(path)
    else:
        results = Results(path, about(options.peers, Path(sys.executable).parent))
    count = 1 if options.quick else options.rounds
    turns = list(rounds.plan(count, options.peers, options.cells))
    rounds.run(turns, results, QUICK_JOBS if options.quick else options.jobs, _say)
    return results


def _is_partial(options: argparse.Namespace) -> bool:
    """Not what the docs should show."""
    whole = (tuple(options.peers), tuple(options.cells)) == (CONTESTANTS, CELLS)
    return options.quick or options.jobs is not None or not whole


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.peers", description=__doc__)
    add = parser.add_argument
    add("--peers", type=_contestants, default=CONTESTANTS, metavar="A,B", help="and ours")
    add("--cells", type=_cells, default=CELLS, metavar="A,B", help="such as drain:full:1")
    add("--rounds", type=int, default=3)
    add("--jobs", type=int, help="maximum number of jobs in a measurement")
    add("--quick", action="store_true", help="only try that everything runs")
    add("--continue", action="store_true", dest="go_on", help="measure what is missing")
    add("--report-only", action="store_true", help="the table and the chart of an earlier run")
    add("--json", type=Path, help="where the figures are")
    add("--chart", type=Path, help=f"where to draw; a whole run draws {CHART.relative_to(ROOT)}")
    return parser.parse_args()


def _contestants(names: str) -> Sequence[Contestant]:
    wanted = [OURS, *names.split(",")]
    return _chosen(wanted, CONTESTANTS, lambda contestant: contestant.name)


def _cells(names: str) -> Sequence[Cell]:
    return _chosen(names.split(","), CELLS, lambda cell: cell.name)


def _chosen(names: list[str], among: Sequence[T], name_of: Callable[[T], str]) -> Sequence[T]:
    """In the usual order, each once."""
    known = {name_of(one): one for one in among}
    if unknown := set(names) - set(known):
        raise argparse.ArgumentTypeError(f"no {', '.join(unknown)} among {', '.join(known)}")
    return [one for name, one in known.items() if name in names]


if __name__ == "__main__":
    sys.exit(main())
