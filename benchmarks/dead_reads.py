"""Requests about dead jobs, and how long each takes: of the file, and of a daemon over NATS."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, Final

from benchmarks.dead_jobs import DAY, error_type, message, place
from benchmarks.projected_log import address
from benchmarks.projected_reads import latencies
from benchmarks.report import Report
from jobs_admin.api.client import AdminClient
from jobs_admin.api.job_filter import JobFilter
from jobs_admin.api.views.health import Mode
from jobs_admin.config import AdminConfig
from jobs_admin.daemon import serving
from jobs_admin.reads.dead_groups import dead_groups
from jobs_admin.reads.readers import Readers
from jobs_admin.reads.stats import stats
from trellis_jobs.model.states import JobState

Narrow = Callable[[int], dict[str, Any]]
_PAGE: Final = 50
_DEAD: Final = [JobState.DEAD]


def narrowed(jobs: int, begin: datetime) -> dict[str, Narrow]:
    """The filters of each kind of request, about something else every time."""

    def some(n: int) -> int:
        return n * 618_033 % jobs

    def moment(n: int) -> datetime:
        return begin + DAY * some(n) / jobs

    def job_id(n: int) -> str:
        return address(some(n)).job_id

    def hours(n: int) -> datetime:
        return begin + timedelta(hours=4, seconds=n)

    return {
        "all": lambda _: {},
        "service": lambda n: {"service": address(n).service},
        "service and type": lambda n: {"service": address(n).service, "type": address(n).job_type},
        "since 20 h": lambda n: {"since": hours(n)},
        "since": lambda n: {"since": moment(n)},
        "until": lambda n: {"until": moment(n)},
        "from 6 h to 12 h": lambda n: {"since": hours(n), "until": hours(n) + 6 * DAY / 24},
        "error: name": lambda n: {"error": error_type(n)},
        "error: word": lambda n: {"error": place(n).upper()},
        "error: words": lambda n: {"error": f"the {place(n)} service"},
        "error: in no text": lambda n: {"error": f"no such thing as {n}"},
        "error: word, since 20 h": lambda n: {"error": place(n), "since": hours(n)},
        "error: word, service": lambda n: {"error": place(n), "service": address(n).service},
        "error: whole text": lambda n: {"error": message(some(n))},
        "error: number": lambda n: {"error": str(some(n))},
        "id prefix, 100 jobs": lambda n: {"id_prefix": job_id(n)[:-2]},
        "id prefix, 10,000 jobs": lambda n: {"id_prefix": job_id(n)[:-4]},
        "id prefix, 100,000 jobs": lambda n: {"id_prefix": job_id(n)[:-5]},
        "id prefix, all jobs": lambda n: {"id_prefix": job_id(n)[: 3 + n % 8]},
    }


async def measure(path: Path, jobs: int, begin: datetime, times: int) -> Report:
    async with Readers.open(path) as readers:

        async def grouped(narrow: Narrow, n: int) -> None:
            wanted = JobFilter(state=_DEAD, **narrow(n))
            await dead_groups(readers, wanted, offset=0, limit=_PAGE)

        async def counted(n: int) -> None:
            now = begin + DAY + timedelta(minutes=n % 60)
            await stats(readers, now=now, window=DAY)

        return {
            name: await latencies(partial(grouped, narrow), times)
            for name, narrow in narrowed(jobs, begin).items()
        } | {"Stats, 24 h": await latencies(counted, times)}


async def measure_requests(url: str, path: Path, jobs: int, begin: datetime, times: int) -> Report:
    """The same through a daemon and NATS, until the client has typed answers."""
    config = AdminConfig(nats=url, path=path, mode=Mode.RPC_ONLY)
    async with serving(config), AdminClient.connect(url, timeout=60) as client:

        async def grouped(narrow: Narrow, n: int) -> None:
            await client.group_dead(JobFilter(**narrow(n)), limit=_PAGE)

        async def counted(_: int) -> None:
            await client.stats(window_minutes=DAY // timedelta(minutes=1))

        asked: dict[str, Callable[[int], Awaitable[None]]] = {
            f"Jobs.GroupDLQ, {name}": partial(grouped, narrow)
            for name, narrow in narrowed(jobs, begin).items()
        }
        asked["Jobs.Stats, 24 h"] = counted
        return {name: await latencies(ask, times) for name, ask in asked.items()}
