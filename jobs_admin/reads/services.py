"""Reads services, their workers, and queues without workers from the projection."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from jobs_admin.api.views.base import Page
from jobs_admin.api.views.services import ServiceView, TypeView, WorkerView
from jobs_admin.projection.rows import microseconds, moment_of
from jobs_admin.reads.job_counts import OLDEST_PENDING
from trellis_jobs.model.states import JobState

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from jobs_admin.reads.readers import Readers

FRESH: Final = timedelta(seconds=90)

# By the time at which the server stored the heartbeat, because a worker's clock may be wrong.
_WORKERS: Final = (
    "SELECT service, type, instance, seen_at, concurrency, version, loop_blocked_ms, contract, "
    "clock_offset_ms FROM worker_presence_projection WHERE seen_at >= ? "
    "ORDER BY service, type, instance"
)
# The fields of a worker, in the order of the query.
_WORKER_FIELDS: Final = (
    "service",
    "job_type",
    "instance_id",
    "timestamp",
    "concurrency",
    "version",
    "loop_blocked_ms",
    "contract_digest",
    "clock_offset_ms",
)
# Queues whose live workers do not all have the same contract.
_CONTRACTS: Final = (
    "SELECT service, type, contract, count(*) FROM worker_presence_projection AS beat "
    "WHERE seen_at >= ?1 AND contract IS NOT NULL AND EXISTS (SELECT 1 FROM "
    "worker_presence_projection AS other WHERE other.service = beat.service AND "
    "other.type = beat.type AND other.seen_at >= ?1 AND other.contract <> beat.contract) "
    "GROUP BY service, type, contract ORDER BY service, type, contract"
)
# Every type that has jobs, finished or not.
_COUNTS: Final = "SELECT service, type, state, jobs FROM job_counts ORDER BY service, type"


@dataclass(slots=True)
class TypeCounts:
    pending: int = 0
    retry: int = 0
    active: int = 0
    oldest_pending_at: datetime | None = None
    live_workers: int = 0

    @property
    def is_unattended(self) -> bool:
        """There are jobs to run and no worker to run them."""
        return self.pending + self.retry > 0 and self.live_workers == 0


@dataclass(slots=True)
class FoundService:
    types: dict[str, TypeCounts] = field(default_factory=dict)
    workers: list[WorkerView] = field(default_factory=list)

    def type_of(self, name: str) -> TypeCounts:
        return self.types.setdefault(name, TypeCounts())


async def page(readers: Readers, *, now: datetime, offset: int, limit: int) -> Page[ServiceView]:
    """A page by name. `now` is the server's time; a worker not seen for FRESH counts as gone."""
    services: dict[str, FoundService] = {}
    async with readers.snapshot() as database:
        fresh = microseconds(now - FRESH)
        _add_workers(services, await database.execute_fetchall(_WORKERS, (fresh,)))
        _add_counts(services, await database.execute_fetchall(_COUNTS))
        for service, job_type, oldest in await database.execute_fetchall(
            OLDEST_PENDING, (None, None)
        ):
            if oldest is not None:
                services[service].type_of(job_type).oldest_pending_at = moment_of(oldest)
    names = sorted(services)
    shown = [_service_view(name, services[name]) for name in names[offset : offset + limit]]
    return Page[ServiceView].of(shown, count=len(names), offset=offset, limit=limit)


async def contract_conflicts(readers: Readers, *, now: datetime) -> list[str]:
    """A sentence for each queue whose live workers have different contracts."""
    fresh = microseconds(now - FRESH)
    found: dict[str, list[str]] = {}
    async with readers.snapshot() as database:
        for service, job_type, contract, workers in await database.execute_fetchall(
            _CONTRACTS, (fresh,)
        ):
            found.setdefault(f"{service}/{job_type}", []).append(f"{contract}: {workers}")
    return [
        f"the workers of {queue} have different contracts (workers of each: {', '.join(each)})"
        for queue, each in found.items()
    ]


def _add_workers(services: dict[str, FoundService], rows: Iterable[Any]) -> None:
    for row in rows:
        fields = dict(zip(_WORKER_FIELDS, row, strict=True))
        worker = WorkerView(**{**fields, "timestamp": moment_of(fields["timestamp"])})
        found = services.setdefault(worker.service, FoundService())
        found.type_of(worker.job_type).live_workers += 1
        found.workers.append(worker)


def _add_counts(services: dict[str, FoundService], rows: Iterable[Any]) -> None:
    for service, job_type, state, jobs in rows:
        of_type = services.setdefault(service, FoundService()).type_of(job_type)
        match state:
            case JobState.PENDING:
                of_type.pending = jobs
            case JobState.RETRY:
                of_type.retry = jobs
            case JobState.ACTIVE:
                of_type.active = jobs


def _service_view(name: str, found: FoundService) -> ServiceView:
    return ServiceView(
        name=name,
        healthy=not any(of_type.is_unattended for of_type in found.types.values()),
        workers=tuple(found.workers),
        types=tuple(_type_view(of, found.types[of]) for of in sorted(found.types)),
    )


def _type_view(name: str, counts: TypeCounts) -> TypeView:
    return TypeView(
        type=name,
        pending=counts.pending,
        retry=counts.retry,
        active=counts.active,
        live_workers=counts.live_workers,
        unattended=counts.is_unattended,
        oldest_pending_at=counts.oldest_pending_at,
    )
