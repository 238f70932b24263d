"""The composition root of the admin runtime: background loops and the RPC server."""

from __future__ import annotations

import asyncio
import logging
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Final

from jobs_admin.config import SERVICE_NAME
from jobs_admin.doctor.checks import Installation
from jobs_admin.health import PROJECTOR, Health
from jobs_admin.http.probes import Probes
from jobs_admin.maintenance.maintenance import Maintenance
from jobs_admin.maintenance.retention.archive import FolderArchive, NoArchive
from jobs_admin.maintenance.retention.junk import JunkRemoval
from jobs_admin.maintenance.retention.retention import Retention, RetentionDependencies
from jobs_admin.operations.run import RunContext
from jobs_admin.operations.runner import MAX_WRITE_INTERVAL, WRITES_PER_LEASE, Runner
from jobs_admin.parts import Parts, assemble
from jobs_admin.routing import make_router
from jobs_admin.rpc.startup import until_readable
from trellis_jobs.contract.permissions.grants import inbox_prefix
from trellis_jobs.contract.topology import Topology
from trellis_jobs.environment import Environment
from trellis_jobs.errors import InfrastructureMissing
from trellis_jobs.jetstream.client.connect_options import as_connect_options
from trellis_jobs.jetstream.client.rpc import RpcServer
from trellis_jobs.jetstream.client.startup import Startup
from trellis_jobs.jetstream.control.worker_feed import WorkerFeed
from trellis_jobs.jetstream.schedules.schedule_feed import ScheduleFeed
from trellis_jobs.jetstream.setup.features import detect_features
from trellis_jobs.jetstream.setup.plan import Act
from trellis_jobs.jetstream.setup.provision import plan, provision
from trellis_jobs.model import subjects

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping
    from typing import Any

    from jobs_admin.config import AdminConfig
    from jobs_admin.loops import Loops
    from jobs_admin.projection.projector import Projector
    from jobs_admin.reads.read_your_writes import LogProgress
    from jobs_admin.reads.readers import Readers
    from trellis_jobs.contract.features import Features
    from trellis_jobs.jetstream.client.connection import Connection
    from trellis_jobs.jetstream.client.server_clock import ServerClock
    from trellis_jobs.jetstream.log.event_log import EventLog

log = logging.getLogger(__name__)

RETENTION: Final = "retention"
JUNK: Final = "junk"
OPERATIONS: Final = "operations"
WORKERS: Final = "worker records"
SCHEDULES: Final = "schedule records"
AUDIT: Final = "audit records"
_REMEDY: Final = "start a service that may provision, or run `trellis-jobs admin serve --provision`"


@dataclass(frozen=True, slots=True)
class Daemon:
    """A running admin runtime; the task `running` ends only after an internal error."""

    connection: Connection
    events: EventLog
    readers: Readers
    progress: LogProgress
    health: Health
    clock: ServerClock
    loops: Loops
    running: asyncio.Task[None]
    health_port: int | None


@asynccontextmanager
async def serving(
    config: AdminConfig, environment: Environment | None = None
) -> AsyncIterator[Daemon]:
    """Run the admin runtime within the block; pending requests are answered before it closes."""
    environment = environment or Environment()
    async with AsyncExitStack() as opened:
        access = as_connect_options(config.nats).with_inbox_prefix(inbox_prefix(SERVICE_NAME))
        startup = Startup(config.connect_timeout)
        connection = await startup.open(access, name="jobs admin")
        opened.push_async_callback(connection.close)
        features = await startup.until_ready(partial(_prepare, connection, make=config.provision))
        installation = Installation(access=access, connection=connection, features=features)
        parts = await assemble(opened, config, environment, installation)
        port = None
        if config.health_port is not None:
            probes = Probes(parts.health.report).open(config.health_port, config.health_host)
            port = await opened.enter_async_context(probes)
        runner = _runner(parts)
        running = asyncio.create_task(_run(_loops(parts, runner)))
        opened.push_async_callback(_end, running)
        router = make_router(parts, runner)
        if parts.projector is not None:
            await until_readable(connection, parts.projector)
        rpc_server = RpcServer(connection, router.answer, router.refuse)
        await rpc_server.open(subjects.rpc("Jobs.*"), group=SERVICE_NAME)
        opened.push_async_callback(rpc_server.close)
        yield Daemon(
            connection,
            parts.events,
            parts.readers,
            parts.progress,
            parts.health,
            parts.clock,
            parts.loops,
            running,
            port,
        )


def _loops(parts: Parts, runner: Runner) -> Mapping[str, Coroutine[Any, Any, None]]:
    """Return the loops by name; with `--mode rpc-only` only those that read."""
    read_workers = partial(parts.workers.run, WorkerFeed(parts.connection))
    read_schedules = partial(parts.schedules.run, ScheduleFeed(parts.connection))
    read_audit = partial(parts.audit.run, parts.connection)
    reading = {
        WORKERS: parts.loops.keep_running(WORKERS, read_workers),
        AUDIT: parts.loops.keep_running(AUDIT, read_audit),
        SCHEDULES: parts.loops.keep_running(SCHEDULES, read_schedules),
    }
    if parts.projector is None:
        return reading
    every = parts.config.retention_interval
    maintenance = Maintenance(
        connection=parts.connection,
        events=parts.events,
        readers=parts.readers,
        keys=parts.keys,
        clock=parts.clock,
        environment=parts.environment,
        progress=parts.progress,
        workers=parts.workers,
        alarms=parts.alarms,
        schedules=parts.schedules,
    )
    return {
        **reading,
        **maintenance.loops(parts.loops, parts.config),
        PROJECTOR: parts.loops.keep_running(PROJECTOR, parts.projector.run),
        OPERATIONS: parts.loops.keep_running(OPERATIONS, runner.run),
        RETENTION: parts.loops.repeat(RETENTION, every, _retention(parts, parts.projector)),
        JUNK: parts.loops.repeat(JUNK, every, _junk(parts, parts.projector)),
    }


def _junk(parts: Parts, projector: Projector) -> Callable[[], Awaitable[object]]:
    return JunkRemoval(
        age=parts.config.retention.junk,
        dependencies=RetentionDependencies(parts.connection, parts.readers, projector),
        now=parts.clock.now,
        report_progress=partial(parts.loops.report_progress, JUNK),
    ).sweep


def _runner(parts: Parts) -> Runner:
    environment, lease = parts.environment, parts.config.operation_lease
    context = RunContext(
        records=parts.operations,
        actions=parts.actions,
        readers=parts.readers,
        progress=parts.progress.progress,
        now=environment.now,
        write_interval=min(MAX_WRITE_INTERVAL, lease.total_seconds() / WRITES_PER_LEASE),
    )
    until_ready = parts.loops.until_ready
    return Runner(context, environment.new_id(), lease, environment.monotonic, until_ready)


def _retention(parts: Parts, projector: Projector) -> Callable[[], Awaitable[object]]:
    config = parts.config
    archive = NoArchive() if config.archive is None else FolderArchive(config.archive)
    dependencies = RetentionDependencies(parts.connection, parts.readers, projector)
    report_progress = partial(parts.loops.report_progress, RETENTION)
    return Retention(
        config.retention, archive, dependencies, parts.clock.now, report_progress
    ).sweep


async def _prepare(connection: Connection, *, make: bool) -> Features:
    features = await detect_features(connection)
    await _require_streams(connection, features, make=make)
    return features


async def _require_streams(connection: Connection, features: Features, *, make: bool) -> None:
    """Require all streams at startup; Jobs.Health reports later problems with them."""
    for lack in features.lacks():
        log.warning("the NATS server lacks %s", lack, extra={"feature": lack})
    topology = Topology(features)
    if make:
        await provision(connection, topology)
        return
    planned = await plan(connection, replace(topology, with_control=False))
    missing = [each.name for each in planned if each.act is Act.CREATED]
    if missing:
        what = f"streams or buckets that jobs need ({', '.join(missing)})"
        raise InfrastructureMissing(what, _REMEDY)


async def _run(loops: Mapping[str, Coroutine[Any, Any, None]]) -> None:
    async with asyncio.TaskGroup() as running:
        for name, loop in loops.items():
            running.create_task(loop, name=name)
        await asyncio.Event().wait()


async def _end(running: asyncio.Task[None]) -> None:
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
