"""An installation with jobs in every state, and its console: a server, an admin, a worker, pages.

async with installation(folder) as made:
    made.address            of the console
    made.paths()            of every GET route, filled with what the installation has
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, urlencode

from jobs_admin.api.client import AdminClient
from jobs_admin.api.job_filter import JobFilter
from jobs_admin.api.views.operations import OperationVerb
from jobs_admin.config import AdminConfig
from jobs_admin.console.config import ConsoleConfig
from jobs_admin.console.connections import open_connections
from jobs_admin.console.screens import SCREENS
from jobs_admin.console.serving import console_serving
from jobs_admin.console.users import Role
from jobs_admin.daemon import serving
from tests.support.example_service import (
    Report,
    Task,
    TaskJobs,
    TaskWorker,
    example_jobs,
    task_worker,
)
from tests.support.facts import until
from tests.support.lab import until_state
from trellis_jobs import JobRef, KeyConcurrency, QueueDepth, Service, Workers
from trellis_jobs.embedded import EmbeddedServer
from trellis_jobs.jetstream.client.connect_options import ConnectOptions
from trellis_jobs.model.schedules.address import ScheduleAddress
from trellis_jobs.model.states import JobState

SHOP: Final = example_jobs(
    "shop",
    Task,
    Report,
    work={"concurrency": 10, "ack_wait": 30, "backoff": [0.05], "max_deliver": 3},
    brief={"max_deliver": 1, "ack_wait": 30},
    keyed={
        "ack_wait": 30,
        "key": KeyConcurrency(["/key"]),
        "queue": QueueDepth(max_queued_per_key=5),
    },
    unattended={},
)
_PARAMETER: Final = re.compile(r"\{(\w+)(?::\w+)?\}")
# What a page needs in its query, where it shows nothing without.


def _name(ref: JobRef[Any]) -> str:
    return f"{ref.address.service}/{ref.address.job_type}/{ref.id}"


_QUERIES: Final[dict[str, Any]] = {
    "/diff": lambda made: {"a": _name(made.jobs["dead"]), "b": _name(made.jobs["completed"])},
    "/jobs/change": lambda _: {"q": "state:dead", "verb": "replay", "all": "1"},
}
# Downloads, and parts that a script of a page asks for.
_NOT_PAGES: Final = frozenset(
    {
        "/jobs.{format}",
        "/jobs/suggest",
        "/jobs/{service}/{type}/{id}/bundle",
        "/jobs/{service}/{type}/{id}/raw/{what}",
        "/live/events",
    }
)


@dataclass
class ConsoleInstallation:
    """`jobs` has one job by each state. `words` are in every text that jobs and operators give."""

    url: str
    address: str
    words: str
    worker: TaskWorker
    admin: AdminClient
    jobs: dict[str, JobRef[Any]] = field(default_factory=dict)
    operation: str = ""
    instance: str = ""

    @property
    def queues(self) -> TaskJobs:
        return self.worker.jobs

    def paths(self) -> list[str]:
        """Every page of the console; a route with parameters for one thing of each kind."""
        return [
            path
            for screen in SCREENS
            for template in screen.reads
            if template not in _NOT_PAGES
            for path in self.filled(template)
        ]

    def change_paths(self) -> list[str]:
        """Every POST route of the console."""
        return [
            path
            for screen in SCREENS
            for template in screen.changes
            for path in self.filled(template)
        ]

    def filled(self, template: str) -> Iterator[str]:
        """Fails for a parameter that is not known here: add it to `_values`."""
        place = template.split("/")[1]
        for values in self._values(place):
            names = set(_PARAMETER.findall(template))
            assert names <= values.keys(), f"no value for {names - values.keys()} of {template}"
            path = re.sub(r":\w+\}", "}", template).format_map(_quoted(values))
            query = _QUERIES.get(template, lambda _: {})(self)
            yield f"{path}?{urlencode(query)}" if query else path
            if not names:
                return

    def _values(self, place: str) -> list[Mapping[str, str]]:
        """Under the names that routes use for them."""
        queue = {"service": "shop", "type": "work", "queue": "work"}
        if place == "keys":
            return [{"service": "shop", "type": "keyed", "queue": "keyed", "key": self.words}]
        if place == "schedules":
            brief = {"service": "shop", "type": "brief", "queue": "brief"}
            return [{**brief, "name": "often", "schedule": "often"}]
        if place == "operations":
            return [{"id": self.operation, "operation": self.operation}]
        if place == "workers":
            return [{"service": "shop", "instance": self.instance, "id": self.instance}]
        if place in {"jobs", "job", "diff"}:
            return [
                {
                    "service": ref.address.service,
                    "type": ref.address.job_type,
                    "queue": ref.address.job_type,
                    "id": ref.id,
                    "job": ref.id,
                    "job_id": ref.id,
                }
                for ref in self.jobs.values()
            ]
        return [queue]


def _quoted(values: Mapping[str, str]) -> dict[str, str]:
    return {name: quote(value, safe="") for name, value in values.items()}


@asynccontextmanager
async def installation(
    folder: Path, words: str = "order 7", **config: Any
) -> AsyncIterator[ConsoleInstallation]:
    """`config`: fields of ConsoleConfig."""
    async with AsyncExitStack() as opened:
        server = opened.enter_context(EmbeddedServer.start())
        admin_config = AdminConfig(
            nats=server.url,
            path=folder / "jobs.sqlite",
            provision=True,
            janitor_interval=timedelta(seconds=0.2),
        )
        await opened.enter_async_context(serving(admin_config))
        admin = await opened.enter_async_context(
            AdminClient.connect(server.url, by=words, timeout=20)
        )
        worker = task_worker(Service(SHOP, grace=1))
        opened.callback(worker.go.set)
        attended = Workers(queues=["work", "brief", "keyed"])
        await opened.enter_async_context(worker.service.connect(server.url, workers=attended))
        address = await opened.enter_async_context(console_at(server.url, **config))
        made = ConsoleInstallation(server.url, address, words, worker, admin)
        await _create_jobs(made)
        await _operate(made)
        yield made
        worker.go.set()


@asynccontextmanager
async def console_at(
    url: str, access: Mapping[Role, ConnectOptions] | None = None, **config: Any
) -> AsyncIterator[str]:
    """A console on a free port; without `access`, all roles share one connection."""
    roles = access or dict.fromkeys(Role, ConnectOptions(servers=url))
    async with (
        open_connections(roles) as connections,
        console_serving(ConsoleConfig(**({"port": 0} | config)), connections) as address,
    ):
        yield address


async def _create_jobs(made: ConsoleInstallation) -> None:
    queues, words = made.queues, made.words
    tasks = {
        "completed": (queues.work, Task(text=words)),
        "failed": (queues.work, Task(do="give up", text=words)),
        "dead": (queues.brief, Task(do="always fail", text=words)),
        "active": (queues.work, Task(do="wait", text=words)),
        "retry": (queues.work, Task(do="later", seconds=3600, text=words)),
        "pending": (queues.unattended, Task(text=words)),
    }
    made.jobs = {state: await queue.create(task) for state, (queue, task) in tasks.items()}
    made.jobs["scheduled"] = await queues.work.create(Task(text=words), delay=3600)
    made.jobs["expired"] = await queues.unattended.create(Task(text=words), deadline=0.1)
    made.jobs["cancelled"] = await queues.unattended.create(Task(text=words))
    await made.admin.cancel(made.jobs["cancelled"].id, reason=words)
    held = [await queues.keyed.create(Task(do="wait", key=words, text=words)) for _ in range(2)]
    made.jobs["holding a key"], made.jobs["waiting for a key"] = held
    for state in JobState:
        if state.value in made.jobs:
            await until_state(made.jobs[state.value], state)
    active = await made.worker.until_running(made.jobs["active"])
    await active.progress(current=1, total=2, step=words, message=words)
    await active.log(words)


async def _operate(made: ConsoleInstallation) -> None:
    """A schedule, a paused queue and an operation; and wait for the worker to be listed."""
    address = ScheduleAddress("shop", "brief", "often")
    await made.admin.schedules.put(address, {"text": made.words}, every=timedelta(hours=1))
    await made.admin.schedules.pause(address, reason=made.words)
    await made.admin.pause_queue("shop", "brief", reason=made.words)
    dead = JobFilter(service="shop", type="keyed", state=[JobState.DEAD])
    operation = await made.admin.operate(OperationVerb.REPLAY, dead, reason=made.words)
    made.operation = operation.id

    async def listed() -> str | None:
        workers = (await made.admin.list_workers()).entries
        return workers[0].instance_id if workers else None

    made.instance = await until(listed, "the worker is listed")
