"""What is told of one queue: from the server, from its contract, from the admin runtime."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from jobs_admin.api.views.services import StatsView, TypeStats
from jobs_admin.cli.render.times import stamp
from trellis_jobs.contract.declaration import ServiceContract
from trellis_jobs.errors import DeclarationError
from trellis_jobs.jetstream.work.queues import ServerQueue

_MILLISECOND: Final = timedelta(milliseconds=1)


@dataclass(frozen=True, slots=True)
class Numbers:
    """What the admin runtime knows: jobs by state, and live workers of each queue."""

    stats: StatsView
    workers: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class QueueRow:
    """`queue` is None where only code declares it, or where jobs of it are all there is.

    `stats` and `workers` are None where no admin runtime tells.
    """

    service: str
    job_type: str
    queue: ServerQueue | None
    oldest_at: datetime | None
    drift: tuple[str, ...]
    stats: TypeStats | None
    workers: int | None = None

    @property
    def name(self) -> str:
        return f"{self.service}/{self.job_type}"

    @property
    def waiting(self) -> int:
        """What no worker was given yet; of a queue that never had one, what the jobs say."""
        if self.queue is not None:
            return self.queue.consumer.pending
        return 0 if self.stats is None else sum(map(self.stats.states.get, _WAITING, (0, 0)))

    @property
    def retry(self) -> int | None:
        return None if self.stats is None else self.stats.states.get("retry", 0)

    @property
    def is_unattended(self) -> bool:
        """Work waits and nobody asks for it, or somebody had it and nobody is there any more.

        What workers had when they died counts as being done until somebody takes it up.
        """
        if self.queue is None:
            return self.waiting > 0 and self.workers == 0
        if self.queue.consumer.is_paused or self.queue.consumer.waiting_pulls:
            return False
        has = self.queue.consumer
        return has.has_no_worker or (has.ack_pending > 0 and self.workers == 0)

    def paused_until(self, now: datetime) -> datetime | None:
        """None if it is not paused, or without an end."""
        remaining = self.queue.consumer.pause_remaining if self.queue else None
        return None if remaining is None else now + remaining

    def to_json(self, now: datetime) -> dict[str, Any]:
        told: dict[str, Any] = {"service": self.service, "type": self.job_type}
        if self.queue is not None:
            told |= _of_the_server(self.queue)
            until = self.paused_until(now)
            if until is not None:
                told["pausedUntil"] = stamp(until)
        if self.queue is not None or self.stats is not None:
            told["unattended"] = self.is_unattended
        if self.oldest_at is not None:
            told["oldestAt"] = stamp(self.oldest_at)
            told["oldestAgeMs"] = max(0, (now - self.oldest_at) // _MILLISECOND)
        if self.stats is not None:
            told |= {"states": self.stats.states, "perMinute": self.stats.per_minute}
        if self.workers is not None:
            told["workers"] = self.workers
        return {**told, "drift": list(self.drift)}


def rows(
    queues: Iterable[ServerQueue],
    oldest: Mapping[str, datetime | None],
    numbers: Numbers | None,
    declared: ServiceContract | None,
) -> list[QueueRow]:
    """Those the server knows, those that only the code declares, and those that only have jobs."""
    known = {queue.name: queue for queue in queues}
    types = numbers.stats.types if numbers else ()
    told = {f"{each.service}/{each.type}": each for each in types}
    made = [
        QueueRow(
            queue.service,
            queue.job_type,
            queue,
            oldest.get(name),
            tuple(drift_of(queue, declared)),
            told.get(name) or _nothing(queue, numbers),
            None if numbers is None else numbers.workers.get(name, 0),
        )
        for name, queue in known.items()
    ]
    made += _without_consumer(known, told, numbers, declared)
    return sorted(made, key=lambda row: (row.service, row.job_type))


def _without_consumer(
    known: Mapping[str, ServerQueue],
    told: Mapping[str, TypeStats],
    numbers: Numbers | None,
    declared: ServiceContract | None,
) -> list[QueueRow]:
    """Of those that are not declared, those with work: others had some once."""
    in_code = {f"{declared.service}/{each}" for each in declared.queues} if declared else set()
    found = []
    for name in (in_code | told.keys()) - known.keys():
        service, _, job_type = name.partition("/")
        drift, stats = (_NEVER_STARTED,) if name in in_code else (), told.get(name)
        oldest = stats.oldest_pending_at if stats else None
        workers = None if numbers is None else numbers.workers.get(name, 0)
        row = QueueRow(service, job_type, None, oldest, drift, stats, workers)
        if drift or row.waiting:
            found.append(row)
    return found


_WAITING: Final = ("pending", "retry")
_NEVER_STARTED: Final = "declared, and the server has no consumer: no worker of it ever started"


def drift_of(queue: ServerQueue, declared: ServiceContract | None = None) -> list[str]:
    """What is in force against the code at hand, else against what the service has told."""
    if declared is not None and declared.service == queue.service:
        in_code = declared.queues.get(queue.job_type)
        if in_code is None:
            return ["on the server, and declared no more"]
        return queue.settings_drift(in_code, from_code=True)
    try:
        contract = queue.contract()
    except DeclarationError as error:
        return [f"its contract cannot be read: {error}"]
    return [] if contract is None else queue.settings_drift(contract, from_code=False)


def _nothing(queue: ServerQueue, numbers: Numbers | None) -> TypeStats | None:
    """A queue that never had a job is known to have none, if anybody knows."""
    if numbers is None:
        return None
    return TypeStats(service=queue.service, type=queue.job_type, states={}, per_minute={})


def _of_the_server(queue: ServerQueue) -> dict[str, Any]:
    has = queue.consumer
    told: dict[str, Any] = {
        "depth": has.pending,
        "inFlight": has.ack_pending,
        "asking": has.waiting_pulls,
        "ackWaitMs": has.ack_wait // _MILLISECOND,
        "paused": has.is_paused,
    }
    more = {
        "deliveryLimit": has.delivery_limit,
        "pauseReason": has.paused_because,
        "pausedBy": has.paused_by,
    }
    return told | {name: value for name, value in more.items() if value is not None}
