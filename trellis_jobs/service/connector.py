"""Prepares a new connection of a service: streams, log, keys; then wires producer and worker."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from trellis_jobs.contract.topology import Topology, foreign_buckets
from trellis_jobs.errors import NotPermitted
from trellis_jobs.jetstream.alarms.alarms import Alarms
from trellis_jobs.jetstream.control.worker_records import WorkerRecords
from trellis_jobs.jetstream.keys.bucket import KeyBucket
from trellis_jobs.jetstream.keys.coordinator import KeyCoordinator
from trellis_jobs.jetstream.log.event_log import EventLog
from trellis_jobs.jetstream.log.presence import Presence
from trellis_jobs.jetstream.setup.features import detect_features
from trellis_jobs.jetstream.setup.provision import provision, require_log
from trellis_jobs.producer.submission import Producer
from trellis_jobs.service.runtime import Connected
from trellis_jobs.service.shared_keys import warn_about_separate_keys
from trellis_jobs.worker.dependencies import HostDependencies, RegistrationOptions

if TYPE_CHECKING:
    from trellis_jobs.contract.declaration import ServiceContract
    from trellis_jobs.contract.features import Features
    from trellis_jobs.jetstream.client.connection import Connection
    from trellis_jobs.service.deployment import Deployment
    from trellis_jobs.service.runtime import Runtime
    from trellis_jobs.service.worker_selection import SelectedWorkers
    from trellis_jobs.worker.host import WorkerHost

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Replicas:
    """How many replicas streams get: as `requested`, or else new ones as `detected`."""

    requested: int | None
    detected: int


async def prepare_connection(
    connection: Connection,
    contract: ServiceContract,
    runtime: Runtime,
    replicas: Replicas,
    deployment: Deployment,
) -> HostDependencies:
    """Sets up the streams, or requires them if these credentials may not."""
    warn_about_separate_keys(contract)
    features = await detect_features(connection)
    for missing in features.lacks():
        log.warning(
            "this server (version %s) lacks %s",
            features.version,
            missing,
            extra={"version": features.version},
        )
    await _provision(connection, contract, features, replicas)
    # Imported here: a program that only declares jobs does not load OpenTelemetry.
    from trellis_jobs.telemetry import Telemetry  # noqa: PLC0415

    events = EventLog(connection, features)
    if runtime.clock is not None:
        await runtime.clock.measure(connection)
    return HostDependencies(
        connection,
        events,
        Presence(connection, features),
        Telemetry(),
        runtime.environment,
        _keys(contract, runtime, KeyBucket(connection, runtime.environment.now), events),
        RegistrationOptions(
            records=WorkerRecords(connection, supports_ttl=features.message_ttl),
            declared_queues=tuple(contract.queues),
            app_version=deployment.version,
            labels=deployment.labels,
            dead_after=deployment.dead_after,
        ),
    )


async def _provision(
    connection: Connection, contract: ServiceContract, features: Features, replicas: Replicas
) -> None:
    buckets = foreign_buckets(contract.queues.values())
    topology = Topology(
        features,
        replicas.requested,
        replicas.detected,
        buckets=buckets,
        alarms_of=(contract.service,),
    )
    try:
        await provision(connection, topology)
    except NotPermitted as denied:
        log.info(
            "these credentials may not create or change streams, so an operator has to: %s",
            denied,
            extra={"why": str(denied)},
        )
        await require_log(connection, contract.service)


def _keys(
    contract: ServiceContract, runtime: Runtime, bucket: KeyBucket, events: EventLog
) -> dict[str, KeyCoordinator]:
    """Returns coordinators for the queues with keys."""
    now = runtime.environment.now
    return {
        name: KeyCoordinator(contract.service, queue, queue.key_policy, bucket, events, now)
        for name, queue in contract.queues.items()
        if queue.key_policy is not None
    }


def assemble(
    contract: ServiceContract, dependencies: HostDependencies, workers: SelectedWorkers
) -> Connected:
    """Makes the producer, and a worker host if there are handlers."""
    service, events = contract.service, dependencies.events
    alarms = Alarms(dependencies.connection, events.features, dependencies.environment.server_now)
    producer = Producer(
        service,
        events,
        dependencies.keys,
        dependencies.telemetry,
        dependencies.environment,
        alarms,
    )
    host = None
    if workers.handlers:
        host = _worker_host(contract, dependencies, workers, producer, alarms)
    dependencies.connection.on_reconnect(producer.full_keys.reset)
    return Connected(
        dependencies.connection, events, dependencies.keys, alarms, producer, host, asyncio.Event()
    )


def _worker_host(
    contract: ServiceContract,
    dependencies: HostDependencies,
    workers: SelectedWorkers,
    producer: Producer,
    alarms: Alarms,
) -> WorkerHost:
    from trellis_jobs.scheduler.assemble import alarm_worker  # noqa: PLC0415 - producers need none
    from trellis_jobs.worker.host import WorkerHost  # noqa: PLC0415

    return WorkerHost(
        contract.service,
        workers.handlers,
        replace(dependencies, alarms=alarm_worker(contract, dependencies, producer, alarms)),
        concurrency=workers.concurrency,
        shared_limit=workers.shared_limit,
    )
