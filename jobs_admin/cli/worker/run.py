"""`trellis-jobs worker`: run the handlers of a service until it is stopped."""

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
from jobs_admin.cli.worker.queue_list import parse_queues
from jobs_admin.cli.worker.reload import FLAG, keep_restarting
from jobs_admin.http.probes import LOOPBACK, Probes
from trellis_jobs.jetstream.client.connect_options import ConnectOptions
from trellis_jobs.service.service import GRACE, Service
from trellis_jobs.service.worker_selection import Workers
from trellis_jobs.wire.fields import dumps
from trellis_jobs.worker.signals import handle_signals

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _WorkerSetup:
    """The service, its connection, and the options of this worker process."""

    service: Service[Any]
    access: ConnectOptions
    workers: Workers
    burst: bool
    health_port: int | None
    health_host: str
    connect_timeout: float | None


@dataclass(frozen=True, slots=True)
class _WorkerHealth:
    """A worker is ready while it is connected to the server."""

    service: str
    is_ready: bool

    def encode(self) -> bytes:
        server = "connected" if self.is_ready else "away"
        return dumps({"service": self.service, "status": server})


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerOptions:
    """Options of the worker process."""

    queues: Annotated[
        str | None,
        typer.Option(
            envvar="TRELLIS_JOBS_QUEUES",
            help="Run jobs of these queues only, separated by commas. With --total-concurrency "
            "they are in strict order of importance, or have weights: A=6,B=3.",
            metavar="A,B",
        ),
    ] = None
    concurrency: Annotated[
        int | None,
        typer.Option(
            envvar="TRELLIS_JOBS_CONCURRENCY",
            help="Number of jobs to run at once in each queue, instead of the declared number.",
            min=1,
        ),
    ] = None
    total_concurrency: Annotated[
        int | None,
        typer.Option(
            envvar="TRELLIS_JOBS_TOTAL_CONCURRENCY",
            help="Number of jobs to run at once in all queues together. No limit by default.",
            min=1,
        ),
    ] = None
    burst: Annotated[
        bool,
        typer.Option(
            "--burst", envvar="TRELLIS_JOBS_BURST", help="Exit when the queues are empty."
        ),
    ] = False
    grace: Annotated[
        float,
        typer.Option(
            envvar="TRELLIS_JOBS_GRACE",
            help="Seconds that running jobs have to finish after SIGTERM.",
            min=0,
        ),
    ] = GRACE

    reload: Annotated[
        bool,
        typer.Option(
            FLAG,
            envvar="TRELLIS_JOBS_RELOAD",
            help="For development: restart when a Python file in the current directory or below "
            "changes. Running jobs have one second to finish and are put back otherwise.",
        ),
    ] = False

    def workers(self) -> Workers:
        queues = None if self.queues is None else parse_queues(self.queues)
        return Workers(queues, self.concurrency, self.total_concurrency)


def worker(
    service: Annotated[
        str, typer.Argument(metavar="MODULE:SERVICE", help="The Service object, as in app:service.")
    ],
    options: ConnectionOptions,
    worker: WorkerOptions,
    health_port: HealthPort = None,
    health_host: HealthHost = LOOPBACK,
    connect_timeout: ConnectTimeout = None,
    log_format: Format = LogFormat.TEXT,
    log_level: Level = LogLevel.INFO,
) -> None:
    """Run the handlers of a service.

    The worker can be started before the server. On SIGTERM and Ctrl-C it finishes running jobs or
    puts them back, and exits. On SIGTSTP it takes no new jobs until SIGCONT.
    """
    set_up_logs(log_format, log_level)
    if worker.reload:
        run(keep_restarting(sys.argv[sys.argv.index("worker") + 1 :], worker.grace))
    loaded = load_service(service)
    loaded.grace = worker.grace
    set_up_telemetry(loaded.name)
    # Everything that is loaded now stays until the end, so the collector can skip it.
    gc.collect()
    gc.freeze()
    setup = _WorkerSetup(
        service=loaded,
        access=options.connect_options(),
        workers=worker.workers(),
        burst=worker.burst,
        health_port=health_port,
        health_host=health_host,
        connect_timeout=connect_timeout,
    )
    run(_work(setup))


async def _work(setup: _WorkerSetup) -> None:
    serving = asyncio.create_task(_serve(setup))

    def cancel() -> None:
        """Until the service handles signals itself, it has no jobs to put back."""
        serving.cancel()

    with handle_signals({signal.SIGTERM: cancel, signal.SIGINT: cancel}):
        await asyncio.wait({serving})
    if not serving.cancelled():
        serving.result()


async def _serve(setup: _WorkerSetup) -> None:
    service = setup.service
    # By default SIGTSTP suspends the process, so it is blocked until the service handles it.
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTSTP})
    connected = service.connect(
        setup.access, workers=setup.workers, connect_timeout=setup.connect_timeout
    )
    async with _probes(setup), connected:
        ends = {asyncio.create_task(service.wait())}
        await asyncio.sleep(0)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTSTP})
        if setup.burst:
            ends.add(asyncio.create_task(service.drain()))
        done, others = await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        for task in others:
            task.cancel()
        for task in done:
            task.result()


@asynccontextmanager
async def _probes(setup: _WorkerSetup) -> AsyncIterator[None]:
    async def report() -> _WorkerHealth:
        return _WorkerHealth(setup.service.name, setup.service.is_up)

    if setup.health_port is None:
        yield
        return
    async with Probes(report).open(setup.health_port, setup.health_host) as port:
        log.info("serving health probes on port %s", port, extra={"port": port})
        yield
