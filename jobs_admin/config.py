"""The settings of the admin runtime, from flags and the environment, as one value."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final

from jobs_admin.api.views.health import Mode
from jobs_admin.http.probes import LOOPBACK
from jobs_admin.retention_policy import RetentionPolicy, standard
from trellis_jobs.jetstream.client.connection import CONNECT_TIMEOUT

if TYPE_CHECKING:
    from trellis_jobs.jetstream.client.connect_options import ConnectOptions

# The service name in replies, and the queue group in which replicas share requests.
SERVICE_NAME: Final = "jobs-admin"
SYSTEM_PATH: Final = Path("/var/lib/trellis/jobs.sqlite")
PATH_VARIABLE: Final = "TRELLIS_JOBS_DB_PATH"


@dataclass(frozen=True, slots=True, kw_only=True)
class AdminConfig:
    nats: str | ConnectOptions
    path: Path
    mode: Mode = Mode.FULL
    janitor_interval: timedelta = timedelta(seconds=5)
    reconcile_interval: timedelta = timedelta(seconds=30)
    # The work message of a job that was just created or released may take a moment to appear.
    reconcile_grace: timedelta = timedelta(seconds=10)
    # The workers of a service release a delayed job at its time, so it is overdue only after this.
    overdue_grace: timedelta = timedelta(seconds=30)
    # Another daemon takes over an operation whose record has not changed for this long.
    operation_lease: timedelta = timedelta(seconds=10)
    retention_interval: timedelta = timedelta(minutes=5)
    retention: RetentionPolicy = field(default_factory=standard)
    archive: Path | None = None
    health_port: int | None = None
    health_host: str = LOOPBACK
    # Niceness of the threads that read the log; above 0 they yield to work on the same machine.
    nice: int = 0
    provision: bool = False
    connect_timeout: float | None = CONNECT_TIMEOUT


def default_path() -> Path:
    """Return the path from the environment, else the system path if writable, else a user path."""
    configured = os.environ.get(PATH_VARIABLE)
    if configured:
        return Path(configured)
    folder = SYSTEM_PATH.parent
    nearest = next(parent for parent in (folder, *folder.parents) if parent.exists())
    if os.access(nearest, os.W_OK) and (folder.exists() or os.access(nearest, os.X_OK)):
        return SYSTEM_PATH
    data = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
    return Path(data) / "trellis" / "jobs.sqlite"
