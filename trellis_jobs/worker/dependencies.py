"""What a worker host depends on. In its own file, so that producers do not import the worker."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from trellis_jobs.model.worker_record import DEFAULT_DEAD_AFTER

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import timedelta

    from trellis_jobs.environment import Environment
    from trellis_jobs.jetstream.client.connection import Connection
    from trellis_jobs.jetstream.control.worker_records import WorkerRecords
    from trellis_jobs.jetstream.keys.coordinator import KeyCoordinator
    from trellis_jobs.jetstream.log.event_log import EventLog
    from trellis_jobs.jetstream.log.presence import Presence
    from trellis_jobs.telemetry import Telemetry


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistrationOptions:
    """What a worker's record says besides its queues, and where it is stored.

    `declared_queues` are all queues of the contract, also those that the worker does not work on.
    """

    records: WorkerRecords
    declared_queues: tuple[str, ...] = ()
    app_version: str | None = None
    labels: tuple[str, ...] = ()
    dead_after: timedelta = DEFAULT_DEAD_AFTER


class AlarmReceiver(Protocol):
    """Releases delayed jobs and fires schedules for as long as the worker runs."""

    def start(self) -> None: ...

    async def stop(self) -> None: ...


@dataclass(frozen=True, slots=True)
class HostDependencies:
    """`keys` has the queues with keys only. Without `registration` the worker has no record.

    `alarms` receives the alarms of the service in this process; None if it is not to.
    """

    connection: Connection
    events: EventLog
    presence: Presence
    telemetry: Telemetry
    environment: Environment
    keys: Mapping[str, KeyCoordinator] = field(default_factory=dict)
    registration: RegistrationOptions | None = None
    alarms: AlarmReceiver | None = None
