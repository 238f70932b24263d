"""The parts that the RPC methods and the loops of an admin runtime share."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

import aiosqlite

from jobs_admin.actions.job_actions import Actions
from jobs_admin.actions.job_keys import JobKeys
from jobs_admin.actions.key_buckets import KeyBuckets
from jobs_admin.actions.key_leases import Leases
from jobs_admin.api.errors import ProjectionMissing, ProjectionUnavailable, ProjectionUnusable
from jobs_admin.api.views.health import Mode
from jobs_admin.audit.registry import AuditRegistry
from jobs_admin.creation.job_creator import JobCreator
from jobs_admin.file_lock import only_writer
from jobs_admin.health import Health
from jobs_admin.loops import Loops
from jobs_admin.operations.records import OperationRecords
from jobs_admin.projection.projector import Projector
from jobs_admin.reads.position import FilePosition, position
from jobs_admin.reads.read_your_writes import LogProgress
from jobs_admin.reads.readers import Readers
from jobs_admin.schedules.actions import ScheduleActions
from jobs_admin.schedules.registry import ScheduleRegistry
from jobs_admin.workers.registry import WorkerRegistry
from trellis_jobs.jetstream.alarms.alarms import Alarms
from trellis_jobs.jetstream.client.server_clock import ServerClock
from trellis_jobs.jetstream.control.records import ControlRecords
from trellis_jobs.jetstream.log.event_log import EventLog
from trellis_jobs.jetstream.log.feed import LogFeed
from trellis_jobs.jetstream.log.history import Histories
from trellis_jobs.jetstream.schedules.records import ScheduleRecords
from trellis_jobs.jetstream.schedules.schedules import Schedules

if TYPE_CHECKING:
    from contextlib import AsyncExitStack
    from pathlib import Path

    from jobs_admin.config import AdminConfig
    from jobs_admin.doctor.checks import Installation
    from trellis_jobs.environment import Environment
    from trellis_jobs.jetstream.client.connection import Connection


@dataclass(frozen=True, slots=True)
class Parts:
    """`projector` is None with `--mode rpc-only`."""

    config: AdminConfig
    environment: Environment
    installation: Installation
    clock: ServerClock
    keys: JobKeys
    events: EventLog
    readers: Readers
    progress: LogProgress
    projector: Projector | None
    loops: Loops
    health: Health
    alarms: Alarms
    operations: OperationRecords
    workers: WorkerRegistry
    schedules: ScheduleRegistry
    schedule_actions: ScheduleActions
    creator: JobCreator
    control: ControlRecords
    audit: AuditRegistry

    @property
    def connection(self) -> Connection:
        return self.installation.connection

    @property
    def actions(self) -> Actions:
        return Actions(
            connection=self.connection,
            events=self.events,
            keys=self.keys,
            alarms=self.alarms,
            now=self.environment.now,
        )

    def max_reply_bytes(self) -> int:
        return self.connection.max_payload


async def assemble(
    opened: AsyncExitStack,
    config: AdminConfig,
    environment: Environment,
    installation: Installation,
) -> Parts:
    connection, features = installation.connection, installation.features
    projector = None
    if config.mode is Mode.FULL:
        projector = await _own_projector(opened, config, LogFeed(connection))
    readers = await opened.enter_async_context(Readers.open(config.path, projector))
    if projector is None:
        await _require_file(config.path, readers)
    loops = Loops(environment.now, projector.until_open if projector else None)
    events = EventLog(connection, features, Histories(connection, deletes_consumers=True))
    clock = ServerClock(connection, environment.monotonic)
    await clock.now()
    # A separate connection, so that slow queries cannot make health probes time out.
    for_health = await opened.enter_async_context(Readers.open(config.path, projector, count=1))
    health = _health(config, environment, installation, for_health, loops, clock)
    keys = _keys(connection, events, clock, environment)
    alarms = Alarms(connection, features, clock.last_known)
    schedules = ScheduleRecords(connection, supports_ttl=features.message_ttl)
    control = ControlRecords(connection, supports_ttl=features.message_ttl)
    return Parts(
        config=config,
        environment=environment,
        installation=installation,
        clock=clock,
        keys=keys,
        events=events,
        readers=readers,
        progress=LogProgress(projector or FilePosition(readers), connection),
        projector=projector,
        loops=loops,
        health=health,
        alarms=alarms,
        operations=OperationRecords(control),
        workers=WorkerRegistry(environment.monotonic),
        schedules=ScheduleRegistry(environment.monotonic),
        schedule_actions=ScheduleActions(Schedules(schedules, alarms)),
        creator=JobCreator.at(connection, events, alarms, environment),
        control=control,
        audit=AuditRegistry(),
    )


def _health(
    config: AdminConfig,
    environment: Environment,
    installation: Installation,
    readers: Readers,
    loops: Loops,
    clock: ServerClock,
) -> Health:
    return Health(
        connection=installation.connection,
        features=installation.features,
        readers=readers,
        loops=loops,
        mode=config.mode,
        clock=clock,
        now=environment.now,
    )


def _keys(
    connection: Connection, events: EventLog, clock: ServerClock, environment: Environment
) -> JobKeys:
    leases = Leases(clock, environment.monotonic)
    buckets = KeyBuckets(connection, environment.monotonic)
    return JobKeys(connection, events, leases, buckets, environment.now)


async def _own_projector(opened: AsyncExitStack, config: AdminConfig, feed: LogFeed) -> Projector:
    """Open the projector; its loop rebuilds a file that does not belong to this log."""
    try:
        opened.enter_context(only_writer(config.path))
        opening = Projector.open(feed, config.path, nice=config.nice)
        return await opened.enter_async_context(opening)
    except (aiosqlite.DatabaseError, OSError) as error:
        raise ProjectionUnusable(config.path, str(error)) from error


async def _require_file(path: Path, readers: Readers) -> None:
    """Raise if there is no usable file, because this process does not create one."""
    if not await asyncio.to_thread(path.exists):
        raise ProjectionMissing(path)
    try:
        await position(readers)
    except (ProjectionUnavailable, aiosqlite.DatabaseError, OSError) as error:
        raise ProjectionUnusable(path, str(error)) from error
