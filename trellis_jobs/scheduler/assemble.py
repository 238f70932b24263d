"""Wires what a worker process needs to handle the alarms of its service."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from trellis_jobs.jetstream.alarms.due_alarms import DueAlarms
from trellis_jobs.jetstream.schedules.records import ScheduleRecords
from trellis_jobs.jetstream.schedules.schedules import Schedules
from trellis_jobs.model.subjects import AlarmFamily
from trellis_jobs.scheduler.alarm_handlers import AlarmHandlers
from trellis_jobs.scheduler.alarm_worker import AlarmWorker
from trellis_jobs.scheduler.declared_schedules import DeclaredSchedules
from trellis_jobs.scheduler.job_release import JobReleaser
from trellis_jobs.scheduler.schedule_firing import ScheduleFirer

if TYPE_CHECKING:
    from trellis_jobs.contract.declaration import ServiceContract
    from trellis_jobs.jetstream.alarms.alarms import Alarms
    from trellis_jobs.producer.submission import Producer
    from trellis_jobs.worker.dependencies import HostDependencies


@dataclass(frozen=True, slots=True)
class SchedulerParts:
    """`declared` applies the schedules of the contract, when the worker process starts."""

    handlers: AlarmHandlers
    declared: DeclaredSchedules


def alarm_worker(
    contract: ServiceContract, dependencies: HostDependencies, producer: Producer, alarms: Alarms
) -> AlarmWorker:
    parts = scheduler_parts(contract, dependencies, producer, alarms)
    connection = dependencies.connection
    return AlarmWorker(
        connection,
        DueAlarms(connection, contract.service),
        parts.handlers,
        dependencies.environment,
        parts.declared.keep_applying,
    )


def scheduler_parts(
    contract: ServiceContract, dependencies: HostDependencies, producer: Producer, alarms: Alarms
) -> SchedulerParts:
    environment = dependencies.environment
    releaser = JobReleaser(
        events=dependencies.events,
        alarms=alarms,
        queues=contract.queues,
        keys=dependencies.keys,
        full_keys=producer.full_keys,
        telemetry=dependencies.telemetry,
        environment=environment,
    )
    supports_ttl = dependencies.events.features.message_ttl
    records = ScheduleRecords(dependencies.connection, supports_ttl=supports_ttl)
    schedules = Schedules(records, alarms)
    firer = ScheduleFirer(
        schedules=schedules,
        alarms=alarms,
        queues=contract.queues,
        keys=dependencies.keys,
        events=dependencies.events,
        producer=producer,
        environment=environment,
    )
    return SchedulerParts(
        AlarmHandlers({AlarmFamily.JOB: releaser, AlarmFamily.SCHEDULE: firer}, environment),
        DeclaredSchedules(contract, schedules, environment),
    )
