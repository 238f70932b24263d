"""What a service needs to reach an in-memory server."""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from trellis_jobs.jetstream.alarms.alarms import Alarms
from trellis_jobs.jetstream.keys.bucket import KeyBucket
from trellis_jobs.jetstream.keys.coordinator import KeyCoordinator
from trellis_jobs.jetstream.log.event_log import EventLog
from trellis_jobs.jetstream.log.presence import Presence
from trellis_jobs.jetstream.work.lease_keeper import LeaseKeeper
from trellis_jobs.telemetry import Telemetry
from trellis_jobs.testing.memory_client import ALARM_FEATURES, FEATURES, memory_connection
from trellis_jobs.testing.memory_server import MemoryServer
from trellis_jobs.testing.timers import Timers
from trellis_jobs.worker.background_tasks import BackgroundTasks
from trellis_jobs.worker.dependencies import HostDependencies
from trellis_jobs.worker.identity import WorkerIdentity
from trellis_jobs.worker.worker_context import WorkerContext

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from trellis_jobs.contract.declaration import JobType
    from trellis_jobs.environment import Environment
    from trellis_jobs.jetstream.client.connection import Connection


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryDependencies:
    """`timers` are those of the server and of the workers."""

    service: str
    server: MemoryServer
    connection: Connection
    events: EventLog
    bucket: KeyBucket
    alarms: Alarms
    environment: Environment
    background: BackgroundTasks
    timers: Timers

    def keys(self, queue: JobType[Any, Any]) -> KeyCoordinator | None:
        if queue.key_policy is None:
            return None
        now = self.environment.now
        return KeyCoordinator(self.service, queue, queue.key_policy, self.bucket, self.events, now)

    def context(self, queue: JobType[Any, Any]) -> WorkerContext:
        environment, lease = self.environment, queue.ack_wait.total_seconds()
        # Never started: no other process can take a delivery or a slot.
        keeper = LeaseKeeper(
            self.connection.open_another, environment.now, environment.monotonic, lease
        )
        return WorkerContext(
            self.events,
            Presence(self.connection, FEATURES),
            Telemetry(),
            environment,
            self.background,
            keeper,
            WorkerIdentity(environment.new_id),
            lease,
        )

    def of_host(self, keys: Mapping[str, KeyCoordinator]) -> HostDependencies:
        """What the parts of a worker process need that do not belong to one queue."""
        presence = Presence(self.connection, FEATURES)
        return HostDependencies(
            self.connection, self.events, presence, Telemetry(), self.environment, keys
        )


@asynccontextmanager
async def memory_dependencies(
    service: str, environment: Environment
) -> AsyncIterator[MemoryDependencies]:
    """Starts an in-memory server and connects to it. The caller closes `background`."""
    background = BackgroundTasks()
    timers = Timers(background)
    server = MemoryServer(service, now=environment.now, timers=timers, background=background)
    async with memory_connection(server) as connection:
        yield MemoryDependencies(
            service=service,
            server=server,
            connection=connection,
            events=EventLog(connection, FEATURES),
            bucket=KeyBucket(connection, environment.now),
            alarms=Alarms(connection, ALARM_FEATURES, environment.server_now),
            environment=environment,
            background=background,
            timers=timers,
        )
