"""`python -m benchmarks`: measure, print tables, write JSON."""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from pathlib import Path
from typing import Final

from rich.console import Console, Group

from benchmarks import (
    beats,
    beside_admin,
    commands,
    delays,
    keyed_rounds,
    open_pages,
    operations,
    projection,
    recovery,
    retries,
    rounds,
    total_limit,
)
from benchmarks import console as pages
from benchmarks.keyed_report import keyed_report, keyed_table
from benchmarks.report import Report, Say, report, table
from benchmarks.scale import pieces
from benchmarks.scale.pieces import PIECES, RESULTS
from benchmarks.scale.size import QUICK, USUAL
from benchmarks.traffic import MONITORED, Traffic
from trellis_jobs.embedded import EmbeddedServer

LATEST: Final = Path(__file__).parent / "results" / "latest.json"
BESIDE_ADMIN: Final = LATEST.with_name("admin.json")
BEATS: Final = LATEST.with_name("beats.json")
PAGES: Final = LATEST.with_name("console.json")
DELAYS: Final = LATEST.with_name("delays.json")
RECOVERY: Final = LATEST.with_name("recovery.json")
RETRIES: Final = LATEST.with_name("retries.json")
Options = argparse.Namespace


def main() -> None:
    options, console = _options(), Console()
    OTHERS.get(options.part, _against_ceilings)(options, console)


def _against_ceilings(options: Options, console: Console) -> None:
    measured, written = Report(), options.json or LATEST
    tables: list[Group] = []
    for part in [options.part] if options.part else PARTS:
        with (
            console.status("starting") as status,
            EmbeddedServer.start(config=MONITORED) as server,
        ):
            traffic = Traffic(server.store)
            figures, shown = PARTS[part](server.url, traffic, options, status.update)
        measured |= figures
        tables.append(shown)
    written.parent.mkdir(parents=True, exist_ok=True)
    written.write_text(json.dumps(measured, indent=2) + "\n")
    console.print(*tables, f"written to {written}")


def _scale(options: Options, console: Console) -> None:
    size, written = QUICK if options.quick else USUAL, options.json or RESULTS
    with console.status("starting") as status:
        pieces.measure(options.only or PIECES, size, status.update, written)
    for shown in pieces.sheets(pieces.read(written)):
        console.print(shown.on_screen())
    console.print(f"written to {written}")


def _admin(options: Options, console: Console) -> None:
    size, written = beside_admin.USUAL, options.json or BESIDE_ADMIN
    if options.quick:
        size = beside_admin.QUICK
    elif options.jobs:
        size = replace(size, jobs=options.jobs, keyed=max(1, options.jobs // 5))
    with console.status("starting") as status:
        measured = beside_admin.measure(size, status.update)
    written.parent.mkdir(parents=True, exist_ok=True)
    written.write_text(json.dumps(measured, indent=2) + "\n")
    console.print(beside_admin.table(measured), f"written to {written}")


def _beats(options: Options, console: Console) -> None:
    written = options.json or BEATS
    with console.status("starting") as status:
        measured = beats.measure(beats.QUICK if options.quick else beats.USUAL, status.update)
    written.parent.mkdir(parents=True, exist_ok=True)
    written.write_text(json.dumps(measured, indent=2) + "\n")
    console.print(beats.table(measured), f"written to {written}")


def _delays(options: Options, console: Console) -> None:
    written, size = options.json or DELAYS, delays.LARGE if options.million else delays.USUAL
    with console.status("starting") as status:
        measured = delays.measure(delays.QUICK if options.quick else size, status.update)
    written.parent.mkdir(parents=True, exist_ok=True)
    written.write_text(json.dumps(measured, indent=2) + "\n")
    console.print(delays.table(measured), f"written to {written}")


def _pages(options: Options, console: Console) -> None:
    written, size = options.json or PAGES, pages.LARGE if options.million else pages.USUAL
    with console.status("starting") as status, EmbeddedServer.start() as server:
        measured = {
            "pages": pages.measure(
                server.url, pages.QUICK if options.quick else size, status.update
            ),
            "open": open_pages.measure(1 if options.quick else 30, status.update),
        }
    written.parent.mkdir(parents=True, exist_ok=True)
    written.write_text(json.dumps(measured, indent=2) + "\n")
    tables = (pages.table(measured["pages"]), open_pages.table(measured["open"]))
    console.print(*tables, f"written to {written}")


def _recovery(options: Options, console: Console) -> None:
    written = options.json or RECOVERY
    with console.status("starting") as status:
        size = recovery.QUICK if options.quick else recovery.USUAL
        measured = recovery.measure(size, status.update)
    written.parent.mkdir(parents=True, exist_ok=True)
    written.write_text(json.dumps(measured, indent=2) + "\n")
    console.print(recovery.table(measured), f"written to {written}")


def _retries(options: Options, console: Console) -> None:
    written = options.json or RETRIES
    with console.status("starting") as status:
        size = retries.QUICK if options.quick else retries.USUAL
        measured = retries.measure(size, options.server, status.update)
    written.parent.mkdir(parents=True, exist_ok=True)
    written.write_text(json.dumps(measured, indent=2) + "\n")
    console.print(retries.table(measured), f"written to {written}")


def _jobs(url: str, traffic: Traffic, options: Options, say: Say) -> tuple[Report, Group]:
    size = rounds.QUICK if options.quick else rounds.USUAL
    done = rounds.Bench(url, traffic, size).run(say)
    figures = report(done, size, traffic.server_version())
    return figures, table(figures)


def _keys(url: str, traffic: Traffic, options: Options, say: Say) -> tuple[Report, Group]:
    size = keyed_rounds.QUICK if options.quick else keyed_rounds.USUAL
    figures = keyed_report(keyed_rounds.KeyedBench(url, traffic, size).run(say), size)
    return {"server": traffic.server_version(), "keys": figures}, keyed_table(figures)


def _projection(url: str, _: Traffic, options: Options, say: Say) -> tuple[Report, Group]:
    size = projection.LARGE if options.million else projection.USUAL
    figures = projection.measure(url, projection.QUICK if options.quick else size, say)
    return {"projection": figures}, projection.table(figures)


def _commands(url: str, _: Traffic, options: Options, say: Say) -> tuple[Report, Group]:
    figures = commands.measure(url, commands.QUICK if options.quick else commands.USUAL, say)
    return {"commands": figures}, Group(commands.table(figures))


def _operations(url: str, _: Traffic, options: Options, say: Say) -> tuple[Report, Group]:
    figures = operations.measure(url, operations.QUICK if options.quick else operations.USUAL, say)
    return {"operations": figures}, operations.table(figures)


def _total(url: str, traffic: Traffic, options: Options, say: Say) -> tuple[Report, Group]:
    size = total_limit.QUICK if options.quick else total_limit.USUAL
    figures = total_limit.measure(url, traffic, size, say)
    return {"total_limit": figures}, total_limit.table(figures)


PARTS: Final = {
    "jobs": _jobs,
    "total-limit": _total,
    "keys": _keys,
    "projection": _projection,
    "commands": _commands,
    "operations": _operations,
}
OTHERS: Final = {
    "scale": _scale,
    "admin": _admin,
    "beats": _beats,
    "console": _pages,
    "delays": _delays,
    "recovery": _recovery,
    "retries": _retries,
}


_PART: Final = f"only this; else everything but {', '.join(OTHERS)}"


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("part", nargs="?", choices=[*PARTS, *OTHERS], help=_PART)
    parser.add_argument("--quick", action="store_true", help="only try that everything runs")
    parser.add_argument(
        "--million",
        action="store_true",
        help="project a million events, list a million jobs and a million dead ones, or let a "
        "million jobs wait",
    )
    parser.add_argument(
        "--only", action="append", choices=[*PIECES], help="this piece of scale; may be repeated"
    )
    parser.add_argument("--jobs", type=int, help="how many jobs run beside the admin runtime")
    parser.add_argument("--server", help="run retries on this version of .servers, as 2.12.8")
    parser.add_argument("--json", type=Path, help="where to write the figures")
    return parser.parse_args()


if __name__ == "__main__":
    main()
