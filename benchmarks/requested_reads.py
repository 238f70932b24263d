"""The same questions as an operator has them: through a daemon and NATS, to a typed answer."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks import projected_log
from benchmarks.projected_reads import keys_of, latencies
from benchmarks.report import Report
from jobs_admin.api.client import AdminClient
from jobs_admin.api.job_filter import JobFilter
from jobs_admin.api.views.health import Mode
from jobs_admin.config import AdminConfig
from jobs_admin.daemon import serving
from trellis_jobs.model.states import JobState

Ask = Callable[[AdminClient, int], Awaitable[Any]]


async def measure(url: str, path: Path, over: int, keyed: int, times: int) -> Report:
    """Reads of the existing file: its log is gone, so no process writes it."""
    config = AdminConfig(nats=url, path=path, mode=Mode.RPC_ONLY)
    async with serving(config), AdminClient.connect(url, timeout=60) as client:
        return {
            name: await latencies(partial(ask, client), times)
            for name, ask in _questions(over, keyed).items()
        }


def _questions(over: int, keyed: int) -> dict[str, Ask]:
    """Each is asked about something else every time."""
    some, keys = projected_log.address, keys_of(keyed)
    return {
        "Jobs.Get": lambda client, n: client.get(some(n * 37 % over).job_id),
        "Jobs.List, newest": _list(lambda _: JobFilter()),
        "Jobs.List, page 100": _list(lambda _: JobFilter(), offset=min(5_000, over // 2)),
        "Jobs.List, one state": _list(lambda _: JobFilter(state=[JobState.FAILED])),
        "Jobs.List, service": _list(lambda n: JobFilter(service=some(n).service)),
        "Jobs.List, key": _list(lambda n: JobFilter(key=f"customer:{n % keys}")),
        "Jobs.List, error text": _list(lambda n: JobFilter(error=f"UPSTREAM {n % 50}")),
        "Jobs.GroupDLQ": lambda client, _: client.group_dead(limit=50),
    }


def _list(wanted: Callable[[int], JobFilter], offset: int = 0) -> Ask:
    return lambda client, n: client.list_jobs(wanted(n), offset=offset, limit=50)
