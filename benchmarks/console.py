"""The pages of the console over a file with many jobs: time, size, and what open pages cost."""

from __future__ import annotations

import asyncio
import statistics
import tempfile
import time
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import httpx
from rich.table import Table

from benchmarks import projected_log, projected_reads
from jobs_admin.api.views.health import Mode
from jobs_admin.config import AdminConfig
from jobs_admin.console.config import ConsoleConfig
from jobs_admin.console.connections import open_connections
from jobs_admin.console.serving import console_serving
from jobs_admin.console.users import Role
from jobs_admin.daemon import serving
from trellis_jobs.jetstream.client.connect_options import as_connect_options

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from benchmarks.report import Report, Say

MAX_MILLISECONDS: Final = 100
MAX_BYTES: Final = 100_000
_WARM_UP: Final = 3


@dataclass(frozen=True, slots=True)
class Size:
    """`over` jobs have ended and `keyed` jobs wait; each page is requested `times` times."""

    over: int
    keyed: int
    times: int


QUICK: Final = Size(500, 60, 3)
USUAL: Final = Size(100_000, 10_000, 40)
LARGE: Final = Size(1_000_000, 100_000, 40)


def measure(url: str, size: Size, say: Say) -> Report:
    return asyncio.run(_measure(url, size, say))


async def _measure(url: str, size: Size, say: Say) -> Report:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "jobs.sqlite"
        say(f"a file with {size.over:,} jobs")
        await projected_reads.fill(path, size.over, size.keyed)
        async with _console(url, path) as http:
            return {page: await _page(http, page, size, say) for page in _pages(size)}


@asynccontextmanager
async def _console(url: str, path: Path) -> AsyncIterator[httpx.AsyncClient]:
    config = AdminConfig(nats=url, path=path, mode=Mode.RPC_ONLY, provision=True)
    async with (
        serving(config),
        open_connections(dict.fromkeys(Role, as_connect_options(url))) as connections,
        console_serving(ConsoleConfig(port=0), connections) as address,
        httpx.AsyncClient(base_url=address, trust_env=False, timeout=60) as http,
    ):
        yield http


def _pages(size: Size) -> tuple[str, ...]:
    """Pages of jobs are left out: they read the log, and this file has none."""
    some = projected_log.address(size.over // 2)
    queue = f"{some.service}/{some.job_type}"
    return (
        "/",
        "/jobs",
        "/jobs?q=state:dead",
        f"/jobs?q=type:{queue}+state:failed",
        "/jobs?q=error:upstream",
        "/jobs?q=since:2h",
        "/jobs?q=key:customer:7",
        "/dead",
        "/operations",
        "/audit",
        "/new",
        "/queues",
        f"/queues/{queue}",
        "/keys",
        "/schedules",
        "/workers",
        "/system",
    )


async def _page(http: httpx.AsyncClient, page: str, size: Size, say: Say) -> Report:
    say(page)
    took, status, length = [], 0, 0
    for _ in range(_WARM_UP + size.times):
        began = time.perf_counter()
        reply = await http.get(page)
        took.append(1_000 * (time.perf_counter() - began))
        status, length = reply.status_code, len(reply.content)
    warm = sorted(took[_WARM_UP:])
    return {
        "status": status,
        "bytes": length,
        "p50": statistics.median(warm),
        "p95": warm[min(len(warm) - 1, int(len(warm) * 0.95))],
        "first": took[0],
    }


def table(measured: Report) -> Table:
    shown = Table("page", "status", "KB", "first ms", "p50 ms", "p95 ms", title="the console")
    for page, figures in measured.items():
        shown.add_row(
            page,
            str(figures["status"]),
            f"{figures['bytes'] / 1_000:.0f}",
            *(f"{figures[name]:.0f}" for name in ("first", "p50", "p95")),
        )
    return shown
