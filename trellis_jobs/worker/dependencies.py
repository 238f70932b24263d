"""What a worker host depends on. In its own file, so that producers do not import the worker."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trellis_jobs.environment import Environment
    from trellis_jobs.jetstream.client.connection import Connection
    from trellis_jobs.jetstream.keys.coordinator import KeyCoordinator
    from trellis_jobs.jetstream.log.event_log import EventLog
    from trellis_jobs.jetstream.log.presence import Presence
    from trellis_jobs.telemetry import Telemetry


@dataclass(frozen=True, slots=True)
class HostDependencies:
    """`keys` has the queues with keys only."""

    connection: Connection
    events: EventLog
    presence: Presence
    telemetry: Telemetry
    environment: Environment
    keys: Mapping[str, KeyCoordinator] = field(default_factory=dict)
