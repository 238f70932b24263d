"""`trellis-jobs worker`: run the handlers of a service until told to stop."""

from __future__ import annotations

import asyncio
import gc
import logging
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Annotated, Any

import typer

from jobs_admin.cli.connection import ConnectionOptions
from jobs_admin.cli.logs import LogFormat, LogLevel, set_up_logs
from jobs_admin.cli.options import ConnectTimeout, Format, HealthHost, HealthPort, Level
from jobs_admin.cli.run import run
from jobs_admin.cli.service_loader import load_service
from jobs_admin.cli.telemetry import set_up_telemetry
from jobs_admin.cli.worker.reload import FLAG, keep_restarting
from jobs_admin.http.probes import LOOPBACK, Probes
from trellis_jobs.jetstream.client.connect_options import ConnectOptions
from trellis_jobs.service.service import GRACE, Service, Workers
from trellis_jobs.worker.signals import handle_signals

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Post:
    """Where a worker works, on what, and for how long."""

    service: Service[Any]
    access: ConnectOptions
    workers: Workers
    burst: bool
    health_port: int | None
    health_host: str
    connect_timeout: float | None


@dataclass(frozen=True, slots=True)
class _Report:
    """Of a worker that runs: whether it can get work, which is up to the server."""

    service: str
    is_ready: bool

    def to_json(self) -> dict[str, Any]:
        server = "connected" if self.is_ready else "away"
        return {"service": self.service, "status": server}


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """Options: which part of the work this process takes, and for how long."""

    queues: Annotated[
        str | None,
        typer.Option(
            envvar="TRELLIS_JOBS_QUEUES",
            help="Work on these queues only, separated by commas.",
            metavar="A,B",
        ),
    ] = None
    concurrency: Annotated[
        int | None,
        typer.Option(
            envvar="TRELLIS_JOBS_CONCURRENCY",
            help="Jobs of each queue at once, instead of what the service declares.",
            min=1,
        ),
    ] = None
    burst: Annotated[
        bool,
        typer.Option("--burst", envvar="TRELLIS_JOBS_BURST", help="End when nothing is left."),
    ] = False
    grace: Annotated[
        float,
        typer.Option(
            envvar="TRELLIS_JOBS_GRACE",
            help="Seconds that running jobs get to finish after SIGTERM.",
            min=0,
        ),
    ] = GRACE

    reload: Annotated[
        bool,
        typer.Option(
            FLAG,
            envvar="TRELLIS_JOBS_RELOAD",
            help="For development: start again when a Python file below the current directory "
            "changes. Running jobs get a second to finish, the others are handed back.",
        ),
    ] = False

    def workers(self) -> Workers:
        return Workers(_names(self.queues), self.concurrency)


def worker(
    service: Annotated[
        str, typer.Argument(metavar="MODULE:SERVICE", help="The Service object, as in app:service.")
    ],
    reach: ConnectionOptions,
    share: Share,
    health_port: HealthPort = None,
    health_host: HealthHost = LOOPBACK,
    connect_timeout: ConnectTimeout = None,
    log_format: Format = LogFormat.TEXT,
    log_level: Level = LogLevel.INFO,
) -> None:
    """Run the handlers of a service.

    It may be started before its server. SIGTERM and Ctrl-C finish or hand back what runs, SIGTSTP
    takes no new work until SIGCONT.
    """
    set_up_logs(log_format, log_level)
    if share.reload:
        run(keep_restarting(sys.argv[sys.argv.index("worker") + 1 :], share.grace))
    loaded = load_service(service)
    loaded.grace = share.grace
    set_up_telemetry(loaded.name)
    # What is there now stays until the end: the collector need not look at it again and again.
    gc.collect()
    gc.freeze()
    post = _Post(
        service=loaded,
        access=reach.access(),
        workers=share.workers(),
        burst=share.burst,
        health_port=health_port,
        health_host=health_host,
        connect_timeout=connect_timeout,
    )
    run(_work(post))


async def _work(post: _Post) -> None:
    serving = asyncio.create_task(_serve(post))

    def give_up() -> None:
        """Until the worker runs, and listens itself, there is nothing to hand back."""
        serving.cancel()

    with handle_signals({signal.SIGTERM: give_up, signal.SIGINT: give_up}):
        await asyncio.wait({serving})
    if not serving.cancelled():
        serving.result()


async def _serve(post: _Post) -> None:
    service = post.service
    # Unheard, it would stop the process: it waits until the service listens to it.
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTSTP})
    connected = service.connect(
        post.access, workers=post.workers, connect_timeout=post.connect_timeout
    )
    async with _probed(post), connected:
        ends = {asyncio.create_task(service.wait())}
        await asyncio.sleep(0)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTSTP})
        if post.burst:
            ends.add(asyncio.create_task(service.drain()))
        done, others = await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        for task in others:
            task.cancel()
        for task in done:
            task.result()


@asynccontextmanager
async def _probed(post: _Post) -> AsyncIterator[None]:
    async def report() -> _Report:
        return _Report(post.service.name, post.service.is_up)

    if post.health_port is None:
        yield
        return
    async with Probes(report).open(post.health_port, post.health_host) as port:
        log.info("health probes are answered on port %s", port, extra={"port": port})
        yield


def _names(queues: str | None) -> list[str] | None:
    return None if queues is None else [name.strip() for name in queues.split(",") if name.strip()]
