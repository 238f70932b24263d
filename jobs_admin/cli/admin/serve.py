"""`trellis-jobs admin serve`: run the admin runtime."""

from __future__ import annotations

import asyncio
import logging
import signal
from contextlib import AbstractAsyncContextManager, nullcontext
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from jobs_admin.api.errors import ConfigError
from jobs_admin.api.views.health import Mode
from jobs_admin.cli.admin.retention_option import (
    DEFAULT_RETENTION,
    RetentionOption,
    retention_policy,
)
from jobs_admin.cli.connection import ConnectionOptions
from jobs_admin.cli.console.options import EmbeddedConsoleOptions
from jobs_admin.cli.console.role_connections import connect_as, role_connections
from jobs_admin.cli.console.running import console_running
from jobs_admin.cli.logs import LogFormat, LogLevel, set_up_logs
from jobs_admin.cli.options import ConnectTimeout, Format, HealthHost, HealthPort, Level
from jobs_admin.cli.run import collect_rarely, run
from jobs_admin.cli.telemetry import set_up_telemetry
from jobs_admin.config import PATH_VARIABLE, SERVICE_NAME, AdminConfig, default_path
from jobs_admin.daemon import Daemon, serving
from jobs_admin.http.probes import LOOPBACK
from jobs_admin.priority import lower_priority
from trellis_jobs.contract.permissions.grants import inbox_prefix
from trellis_jobs.jetstream.client.connect_options import DEFAULT_SERVER, ConnectOptions
from trellis_jobs.worker.signals import handle_signals

log = logging.getLogger(__name__)

DEFAULTS: Final = AdminConfig(nats=DEFAULT_SERVER, path=Path())
JANITOR: Final = DEFAULTS.janitor_interval.total_seconds()
RECONCILE: Final = DEFAULTS.reconcile_interval.total_seconds()
RETENTION: Final = DEFAULTS.retention_interval.total_seconds()
MIN_INTERVAL: Final = 0.1
# At 10 a process gets about a tenth of the CPU time of a normal process that competes for the core.
NICE: Final = 10
_NEEDS_CREDENTIALS: Final = (
    "--console-auth needs --console-creds: without it, all who sign in would use the NATS "
    "credentials of the admin runtime. Add --console-creds with the user console-viewer, which "
    "`trellis-jobs permissions --console` prints; if the NATS server has no users, with its URL"
)

ProjectionFile = Annotated[
    Path | None,
    typer.Option(
        "--db",
        envvar=PATH_VARIABLE,
        help="The projection, a SQLite file that can be deleted and is rebuilt from the log. "
        "Default: /var/lib/trellis/jobs.sqlite if it is writable, otherwise a file in the user's "
        "data folder.",
        metavar="FILE",
        dir_okay=False,
    ),
]
ModeOption = Annotated[
    Mode,
    typer.Option(
        "--mode",
        envvar="TRELLIS_JOBS_MODE",
        help="full: write the projection, maintain jobs, serve requests. rpc-only: serve requests "
        "from a projection that another process writes.",
    ),
]
Archive = Annotated[
    Path | None,
    typer.Option(
        "--archive",
        envvar="TRELLIS_JOBS_ARCHIVE",
        help="Write jobs to this folder before retention removes them.",
        metavar="FOLDER",
        file_okay=False,
    ),
]
Nice = Annotated[
    int,
    typer.Option(
        "--nice",
        envvar="TRELLIS_JOBS_NICE",
        help="Niceness after startup: a higher value gives more CPU time to other processes "
        "(Linux). 0 is the normal priority.",
        min=0,
        max=19,
    ),
]
Provision = Annotated[
    bool,
    typer.Option(
        "--provision",
        envvar="TRELLIS_JOBS_PROVISION",
        help="Create missing streams instead of refusing to start.",
    ),
]


def _seconds_between(what: str, variable: str) -> Any:
    return typer.Option(
        envvar=variable, help=f"Seconds between checks for {what}.", min=MIN_INTERVAL
    )


JanitorInterval = Annotated[
    float, _seconds_between("jobs past their deadline", "TRELLIS_JOBS_JANITOR_INTERVAL")
]
ReconcileInterval = Annotated[
    float,
    _seconds_between("lost work and stuck keys", "TRELLIS_JOBS_RECONCILE_INTERVAL"),
]
RetentionInterval = Annotated[
    float, _seconds_between("jobs past their retention", "TRELLIS_JOBS_RETENTION_INTERVAL")
]


def serve(
    options: ConnectionOptions,
    console: EmbeddedConsoleOptions,
    db: ProjectionFile = None,
    mode: ModeOption = Mode.FULL,
    health_port: HealthPort = None,
    health_host: HealthHost = LOOPBACK,
    retention: RetentionOption = DEFAULT_RETENTION,
    archive: Archive = None,
    janitor_interval: JanitorInterval = JANITOR,
    reconcile_interval: ReconcileInterval = RECONCILE,
    retention_interval: RetentionInterval = RETENTION,
    nice: Nice = NICE,
    provision: Provision = False,
    connect_timeout: ConnectTimeout = None,
    log_format: Format = LogFormat.TEXT,
    log_level: Level = LogLevel.INFO,
) -> None:
    """Run the admin runtime: it projects the log, serves Jobs.* requests and maintains jobs.

    On SIGTERM and Ctrl-C it finishes the requests in progress and exits. Several may run at once,
    each with a separate projection file.
    """
    set_up_logs(log_format, log_level)
    set_up_telemetry(SERVICE_NAME)
    collect_rarely()
    access = options.connect_options()
    run(
        _serve(
            AdminConfig(
                nats=access,
                path=db or default_path(),
                mode=mode,
                retention=retention_policy(retention),
                archive=archive,
                janitor_interval=timedelta(seconds=janitor_interval),
                reconcile_interval=timedelta(seconds=reconcile_interval),
                retention_interval=timedelta(seconds=retention_interval),
                health_port=health_port,
                health_host=health_host,
                nice=nice,
                provision=provision,
                connect_timeout=connect_timeout,
            ),
            _console(console, access),
        )
    )


def _console(
    given: EmbeddedConsoleOptions, admin: ConnectOptions
) -> AbstractAsyncContextManager[str | None]:
    """Check the options before anything runs. A console without credentials uses the admin's.

    Raises ConfigError.
    """
    options = given.options()
    if options is None:
        return nullcontext()
    config = options.config()
    if given.console_creds is not None:
        viewer = connect_as("--console-creds", given.console_creds, admin)
    elif options.auth:
        raise ConfigError(_NEEDS_CREDENTIALS)
    else:
        viewer = admin.with_inbox_prefix(inbox_prefix(SERVICE_NAME))
    return console_running(config, role_connections(options, viewer))


async def _serve(config: AdminConfig, console: AbstractAsyncContextManager[str | None]) -> None:
    running = asyncio.create_task(_serve_until_stopped(config, console))

    def cancel() -> None:
        """Stop a startup at once, which may include a long rebuild: no request waits yet."""
        running.cancel()

    with handle_signals({signal.SIGTERM: cancel, signal.SIGINT: cancel}):
        await asyncio.wait({running})
    if not running.cancelled():
        running.result()


async def _serve_until_stopped(
    config: AdminConfig, console: AbstractAsyncContextManager[str | None]
) -> None:
    stop = asyncio.Event()
    async with serving(config) as daemon, console as address:
        lower_priority(config.nice)  # not earlier, so that the startup is not slowed down
        with handle_signals({signal.SIGTERM: stop.set, signal.SIGINT: stop.set}):
            log.info("admin runtime started", extra=_described(config, daemon, address))
            stopping = asyncio.create_task(stop.wait())
            await asyncio.wait({stopping, daemon.running}, return_when=asyncio.FIRST_COMPLETED)
            stopping.cancel()
        log.info("admin runtime is stopping", extra={"position": daemon.progress.position})
        if daemon.running.done():
            daemon.running.result()
    log.info("admin runtime stopped")


def _described(config: AdminConfig, daemon: Daemon, console: str | None) -> dict[str, object]:
    return {
        "nats": str(config.nats),
        "server": daemon.connection.server_version,
        "db": str(config.path),
        "mode": config.mode.value,
        "retention": str(config.retention),
        "archive": str(config.archive) if config.archive else None,
        "health_port": daemon.health_port,
        "console": console,
    }
