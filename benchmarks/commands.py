"""Commands as an operator has them: processes that start, ask a daemon about many jobs, and end."""

from __future__ import annotations

import asyncio
import statistics
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import uvloop
from rich.table import Table

from benchmarks import projected_reads
from benchmarks.report import Report, Say
from jobs_admin.api.views.health import Mode
from jobs_admin.config import AdminConfig
from jobs_admin.daemon import serving
from trellis_jobs.contract.topology import Topology
from trellis_jobs.jetstream.client.connection import Connection
from trellis_jobs.jetstream.setup.features import detect_features
from trellis_jobs.jetstream.setup.provision import provision

START: Final = "--version"
ASKED: Final = (
    "jobs list",
    "jobs list --state dead",
    "jobs list --error upstream",
    "dlq list",
    "dlq list --group",
    "services",
    "top --json",
)


@dataclass(frozen=True, slots=True)
class Size:
    times: int
    jobs: int
    keyed: int


USUAL: Final = Size(times=5, jobs=200_000, keyed=20_000)
QUICK: Final = Size(times=1, jobs=300, keyed=30)


def measure(url: str, size: Size, say: Say) -> Report:
    with tempfile.TemporaryDirectory() as folder:
        return uvloop.run(_measure(url, size, Path(folder) / "jobs.sqlite", say))


async def _measure(url: str, size: Size, path: Path, say: Say) -> Report:
    connection = await Connection.open(url, name="bench")
    try:
        await provision(connection, Topology(await detect_features(connection)))
    finally:
        await connection.close()
    say(f"filling a projection with {size.jobs:,} jobs")
    await projected_reads.fill(path, size.jobs, size.keyed)
    # The file is there and its log is not, so no process writes it.
    async with serving(AdminConfig(nats=url, path=path, mode=Mode.RPC_ONLY)):
        seconds = {}
        for command in (START, *ASKED):
            say(command)
            took = [await _seconds(url, command) for _ in range(size.times)]
            seconds[command] = statistics.median(took)
    return {"jobs": size.jobs, "seconds": seconds}


async def _seconds(url: str, command: str) -> float:
    began = time.perf_counter()
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "jobs_admin.cli", *command.split()),
        env={"NATS_URL": url},
        stdout=asyncio.subprocess.DEVNULL,
    )
    if await process.wait() != 0:
        raise RuntimeError(f"{command} ended with {process.returncode}")
    return time.perf_counter() - began


def table(measured: Report) -> Table:
    shown = Table("", "s", "s without its start", title=f"of {measured['jobs']:,} jobs")
    start = measured["seconds"][START]
    for command, took in measured["seconds"].items():
        shown.add_row(command, f"{took:.2f}", f"{max(0.0, took - start):.2f}")
    return shown
