"""What a job does or waits for, in words: when that is over, and while it lasts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from trellis_jobs.model.job_errors import Interruption
from trellis_jobs.model.timeline import Phase

if TYPE_CHECKING:
    from collections.abc import Mapping

PHASE_WORDS: Final[Mapping[Phase, tuple[str, str]]] = {
    Phase.WAITING_FOR_WORKER: ("waited for a worker", "waits for a worker"),
    Phase.WAITING_FOR_KEY: ("waited for its key", "waits for its key"),
    Phase.WAITING: ("waited for a worker or its key", "waits for a worker or its key"),
    Phase.DELAYED: ("was delayed", "is delayed"),
    Phase.BACKING_OFF: ("waited for the retry", "waits for the retry"),
    Phase.SNOOZED: ("was snoozed", "is snoozed"),
    Phase.RUNNING: ("ran", "has been running"),
    Phase.OVER: ("had ended", "has ended"),
}
INTERRUPTION_WORDS: Final[Mapping[str, str]] = {
    Interruption.SHUTDOWN: "interrupted: the worker shut down",
    Interruption.WORKER_DEATH: "interrupted: the worker died",
    Interruption.VISIBILITY_TIMEOUT: "interrupted: the worker stopped responding",
    Interruption.LEASE_OVER: "interrupted: the lease of its key expired",
    Interruption.OTHER_CONTRACT: "put back: it needs a worker with another contract",
}
