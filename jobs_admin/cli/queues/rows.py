"""The state of each queue, from the server, its contract and the admin runtime."""

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
class AdminStats:
    """From the admin runtime: jobs by state, and the number of live workers of each queue."""

    stats: StatsView
    workers: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class QueueRow:
    """`queue` is None when the server has no consumer for it, because no worker ever started.

    `stats` and `workers` are None when no admin runtime answers.
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
        """Jobs that were not delivered yet; without a consumer, the projection's count."""
        if self.queue is not None:
            return self.queue.consumer.pending
        return 0 if self.stats is None else sum(map(self.stats.states.get, _WAITING, (0, 0)))

    @property
    def retry(self) -> int | None:
        return None if self.stats is None else self.stats.states.get("retry", 0)

    @property
    def is_unattended(self) -> bool:
        """True if jobs wait and no worker pulls, or jobs are in progress and no worker is alive.

        Jobs of a worker that died count as in progress until another worker takes them over.
        """
        if self.queue is None:
            return self.waiting > 0 and self.workers == 0
        if self.queue.consumer.is_paused or self.queue.consumer.waiting_pulls:
            return False
        consumer = self.queue.consumer
        return consumer.has_no_worker or (consumer.ack_pending > 0 and self.workers == 0)

    def paused_until(self, now: datetime) -> datetime | None:
        """Returns None when it is not paused, or paused until it is resumed."""
        remaining = self.queue.consumer.pause_remaining if self.queue else None
        return None if remaining is None else now + remaining

    def to_json(self, now: datetime) -> dict[str, Any]:
        body: dict[str, Any] = {"service": self.service, "type": self.job_type}
        if self.queue is not None:
            body |= _consumer_json(self.queue)
            until = self.paused_until(now)
            if until is not None:
                body["pausedUntil"] = stamp(until)
        if self.queue is not None or self.stats is not None:
            body["unattended"] = self.is_unattended
        if self.oldest_at is not None:
            body["oldestAt"] = stamp(self.oldest_at)
            body["oldestAgeMs"] = max(0, (now - self.oldest_at) // _MILLISECOND)
        if self.stats is not None:
            body |= {"states": self.stats.states, "perMinute": self.stats.per_minute}
        if self.workers is not None:
            body["workers"] = self.workers
        return {**body, "drift": list(self.drift)}


def queue_rows(
    queues: Iterable[ServerQueue],
    oldest: Mapping[str, datetime | None],
    admin: AdminStats | None,
    declared: ServiceContract | None,
) -> list[QueueRow]:
    """Queues with a consumer, queues only declared in code, and queues that only have jobs."""
    known = {queue.name: queue for queue in queues}
    types = admin.stats.types if admin else ()
    stats = {f"{each.service}/{each.type}": each for each in types}
    found = [
        QueueRow(
            queue.service,
            queue.job_type,
            queue,
            oldest.get(name),
            tuple(drift_of(queue, declared)),
            stats.get(name) or _empty_stats(queue, admin),
            None if admin is None else admin.workers.get(name, 0),
        )
        for name, queue in known.items()
    ]
    found += _without_consumer(known, stats, admin, declared)
    return sorted(found, key=lambda row: (row.service, row.job_type))


def _without_consumer(
    known: Mapping[str, ServerQueue],
    stats: Mapping[str, TypeStats],
    admin: AdminStats | None,
    declared: ServiceContract | None,
) -> list[QueueRow]:
    """Declared queues, and other queues if they have waiting jobs."""
    in_code = {f"{declared.service}/{each}" for each in declared.queues} if declared else set()
    found = []
    for name in (in_code | stats.keys()) - known.keys():
        service, _, job_type = name.partition("/")
        drift, of_type = (_NEVER_STARTED,) if name in in_code else (), stats.get(name)
        oldest = of_type.oldest_pending_at if of_type else None
        workers = None if admin is None else admin.workers.get(name, 0)
        row = QueueRow(service, job_type, None, oldest, drift, of_type, workers)
        if drift or row.waiting:
            found.append(row)
    return found


_WAITING: Final = ("pending", "retry")
_NEVER_STARTED: Final = "declared, but not on the server: no worker of it was ever started"


def drift_of(queue: ServerQueue, declared: ServiceContract | None = None) -> list[str]:
    """Compare the consumer with the given code, or else with the published contract."""
    if declared is not None and declared.service == queue.service:
        in_code = declared.queues.get(queue.job_type)
        if in_code is None:
            return ["on the server, but no longer declared"]
        return queue.settings_drift(in_code, from_code=True)
    try:
        contract = queue.contract()
    except DeclarationError as error:
        return [f"its contract cannot be read: {error}"]
    return [] if contract is None else queue.settings_drift(contract, from_code=False)


def _empty_stats(queue: ServerQueue, admin: AdminStats | None) -> TypeStats | None:
    """The admin runtime does not list a queue that never had a job. None without one."""
    if admin is None:
        return None
    return TypeStats(service=queue.service, type=queue.job_type, states={}, per_minute={})


def _consumer_json(queue: ServerQueue) -> dict[str, Any]:
    consumer = queue.consumer
    body: dict[str, Any] = {
        "depth": consumer.pending,
        "inFlight": consumer.ack_pending,
        "asking": consumer.waiting_pulls,
        "ackWaitMs": consumer.ack_wait // _MILLISECOND,
        "paused": consumer.is_paused,
    }
    optional = {
        "deliveryLimit": consumer.delivery_limit,
        "pauseReason": consumer.paused_because,
        "pausedBy": consumer.paused_by,
    }
    return body | {name: value for name, value in optional.items() if value is not None}
