"""A log with a million jobs: the rates beside those with few, its weight, and its restarts."""

from __future__ import annotations

from dataclasses import asdict
from typing import Final

import uvloop

from benchmarks import bare, ours
from benchmarks.report import Report, Say
from benchmarks.scale.filling import fill, jobs_in_log
from benchmarks.scale.rates import Rates, compared, rates
from benchmarks.scale.server import Weight, observed_server, recover, restart, weigh
from benchmarks.scale.sheets import Sheet, megabytes, rate_sheet, sheet
from benchmarks.scale.size import Size
from benchmarks.stage import Stage
from trellis_jobs.embedded import EmbeddedServer

SIDES: Final = {"ours": ours, "bare": bare}
MOMENTS: Final = {
    "filled": "just written, caches full",
    "killed": "killed, and started again",
    "stopped": "stopped, and started again",
    "worked": "after more work",
}


def measure(size: Size, say: Say) -> Report:
    with observed_server() as server:
        stage = Stage(server.url, processes=1)
        with stage:
            say(f"depth: rates with {size.few:,} jobs in the log")
            uvloop.run(fill(server.url, 0, size.few))
            few = _rates(stage, size)
            say(f"depth: filling the log with {size.many:,} jobs")
            uvloop.run(fill(server.url, size.few, size.many))
            moments = _restarts(server)
            say(f"depth: rates with {size.many:,} jobs in the log")
            many = _rates(stage, size)
            moments["worked"] = _moment(server, weigh(server))
    return {
        "few": size.few,
        "many": size.many,
        "rates": {side: compared(("few", "many"), few[side], many[side]) for side in SIDES},
        "moments": moments,
    }


def sheets(found: Report) -> list[Sheet]:
    title = f"{found['few']:,} and {found['many']:,} jobs in the log"
    restarts = (
        (
            MOMENTS[moment],
            f"{one['jobs']:,}",
            f"{one['seconds']:.1f} s" if one["seconds"] else "",
            *(megabytes(size) for size in (one["heap"], one["resident"], one["disk"])),
        )
        for moment, one in found["moments"].items()
    )
    return [
        *(rate_sheet(f"depth-{side}", f"{title}: {side}", found["rates"][side]) for side in SIDES),
        sheet(
            "restarts",
            "restarts",
            ("the server", "finished jobs", "ready after", "heap", "resident", "disk"),
            restarts,
        ),
    ]


def _rates(stage: Stage, size: Size) -> dict[str, list[Rates]]:
    """The sides take turns, so that both meet the same server."""
    rounds = [
        {name: rates(stage, size, side) for name, side in SIDES.items()} for _ in range(size.rounds)
    ]
    return {name: [one[name] for one in rounds] for name in SIDES}


def _restarts(server: EmbeddedServer) -> Report:
    """First the kill: the server has not yet written down where everything is."""
    filled, killed, stopped = weigh(server), recover(server), restart(server)
    return {
        "filled": _moment(server, filled),
        "killed": _moment(server, killed.weight, killed.seconds),
        "stopped": _moment(server, stopped.weight, stopped.seconds),
    }


def _moment(server: EmbeddedServer, weight: Weight, seconds: float = 0.0) -> Report:
    jobs = uvloop.run(jobs_in_log(server.url))
    return asdict(weight) | {"disk": weight.on_disk, "seconds": seconds, "jobs": jobs}
