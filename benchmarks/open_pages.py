"""What pages of the console cost that people leave open while jobs run."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

import httpx
from rich.table import Table

from benchmarks.peers.usage import cpu_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from benchmarks.report import Report, Say

PAGES: Final = 10
_RATE: Final = 2.0
# That of console.js.
_MIN_INTERVAL: Final = 0.9
LOOK: Final = 0.1
_ADDRESS: Final = re.compile(r"console: (\S+)\s")
_TOPICS: Final = re.compile(r'data-topics="([^"]*)" data-sequence="(\d+)"')


def measure(seconds: float, say: Say) -> Report:
    """The CPU time of an installation with a demo service, without and with open pages."""
    with _installation() as (pid, address):
        return asyncio.run(_compare(pid, address, seconds, say))


def table(measured: Report) -> Table:
    shown = Table("pages", "reads/s", "without %", "with %", "cost %", title="open pages")
    for path, figures in measured.items():
        shares = (f"{100 * figures[name]:.1f}" for name in ("without", "with", "cost"))
        shown.add_row(f"{PAGES} of {path}", f"{figures['reads_per_second']:.1f}", *shares)
    return shown


async def _compare(pid: int, address: str, seconds: float, say: Say) -> Report:
    async with httpx.AsyncClient(base_url=address, trust_env=False, timeout=60) as http:
        measured: Report = {}
        for path in ("/", "/jobs", "/workers"):
            say(f"no open pages of {path}")
            alone = await _share(pid, seconds)
            say(f"{PAGES} open pages of {path}")
            reads = [0]
            pages = [asyncio.create_task(_keep_open(http, path, reads)) for _ in range(PAGES)]
            beside = await _share(pid, seconds)
            for page in pages:
                page.cancel()
            await asyncio.gather(*pages, return_exceptions=True)
            measured[path] = {
                "without": alone,
                "with": beside,
                "cost": beside - alone,
                "reads_per_second": reads[0] / seconds,
            }
        return measured


async def _share(pid: int, seconds: float) -> float:
    """Of one core, over some seconds."""
    before, began = cpu_of([pid]), asyncio.get_running_loop().time()
    await asyncio.sleep(seconds)
    return (cpu_of([pid]) - before) / (asyncio.get_running_loop().time() - began)


async def _keep_open(http: httpx.AsyncClient, path: str, reads: list[int]) -> None:
    """As console.js does: after hints read the page again, but only its changing part."""
    found = _TOPICS.search((await http.get(path)).text)
    if found is None:
        raise ValueError(f"the page {path} is not live")
    hints: asyncio.Queue[str] = asyncio.Queue()
    query = {"topics": found[1], "after": found[2]}
    async with asyncio.TaskGroup() as running:
        running.create_task(_collect(http, query, hints))
        while True:
            sequence = await hints.get()
            while not hints.empty():
                sequence = hints.get_nowait()
            await http.get(path, headers={"hx-request": "true", "x-min-seq": sequence})
            reads[0] += 1
            await asyncio.sleep(_MIN_INTERVAL)


async def _collect(
    http: httpx.AsyncClient, query: dict[str, str], hints: asyncio.Queue[str]
) -> None:
    async with http.stream("GET", "/hints", params=query) as stream:
        async for line in stream.aiter_lines():
            name, _, sequence = line.partition(": ")
            if name == "data":
                hints.put_nowait(sequence)


@contextmanager
def _installation() -> Iterator[tuple[int, str]]:
    """The process of `trellis-jobs dev`, whose child is the server, and its console."""
    command = ["dev", "--rate", str(_RATE), "--port", "0", "--console-port", "0"]
    with tempfile.TemporaryDirectory() as folder:
        printed = Path(folder) / "printed"
        with printed.open("wb") as output:
            process = subprocess.Popen(
                [sys.executable, "-m", "jobs_admin.cli", *command], stdout=output
            )
        try:
            yield process.pid, _address(process, printed)
        finally:
            process.terminate()
            process.wait(30)


def _address(process: subprocess.Popen[bytes], printed: Path) -> str:
    while process.poll() is None:
        if found := _ADDRESS.search(printed.read_text(errors="replace")):
            return found[1]
        time.sleep(LOOK)
    raise ValueError("trellis-jobs dev ended before its console was ready")
