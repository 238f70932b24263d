"""The state of each queue, from its consumer on the server, its contract and the projection."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from jobs_admin.api.views.queues import QueueView
from trellis_jobs.errors import DeclarationError
from trellis_jobs.model.worker_states import WorkerState

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import datetime

    from jobs_admin.api.views.services import TypeStats
    from jobs_admin.api.views.workers import WorkerProcessView
    from trellis_jobs.contract.declaration import ServiceContract
    from trellis_jobs.jetstream.work.consumer_info import QueueConsumer
    from trellis_jobs.jetstream.work.queues import ServerQueue

_MILLISECOND: Final = timedelta(milliseconds=1)
_NEVER_STARTED: Final = "declared, but not on the server: no worker of it was ever started"


@dataclass(frozen=True, slots=True)
class ProjectedQueues:
    """What the projection knows: statistics of job types, and the live workers of each queue."""

    types: tuple[TypeStats, ...]
    workers: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class ListedQueue:
    """`oldest_at` is when the oldest job was stored that was not delivered yet."""

    queue: ServerQueue
    oldest_at: datetime | None = None


def queue_views(
    listed: Iterable[ListedQueue], projected: ProjectedQueues | None
) -> list[QueueView]:
    """Queues with a consumer, and queues that only have jobs, also if all of these have ended."""
    known = {each.queue.name: each for each in listed}
    stats = {f"{each.service}/{each.type}": each for each in (projected.types if projected else ())}
    found = [_with_consumer(each, stats.get(name), projected) for name, each in known.items()]
    if projected is not None:
        others = stats.keys() - known.keys()
        found += [_without_consumer(stats[name], projected) for name in others]
    return sorted(found, key=_by_name)


def with_workers(
    queues: Iterable[QueueView], processes: Sequence[WorkerProcessView]
) -> list[QueueView]:
    """Add what the records of workers say. Silent workers count as neither running nor quiet."""
    return [_with_processes(queue, processes) for queue in queues]


def _with_processes(queue: QueueView, processes: Sequence[WorkerProcessView]) -> QueueView:
    found = [each for each in processes if each.takes(queue.service, queue.type)]
    found = [each for each in found if not each.silent]
    running = [each for each in found if each.state is WorkerState.RUNNING]
    slots = sum(of.concurrency for each in running for of in each.queues if of.type == queue.type)
    return queue.model_copy(
        update={
            "worker_slots": slots,
            "running_workers": len(running),
            "quiet_workers": len(found) - len(running),
        }
    )


def without_ended(queues: Iterable[QueueView]) -> list[QueueView]:
    """Leave out queues without a consumer and without jobs to run, unless they are declared."""
    return [
        each
        for each in queues
        if each.depth is not None or each.waiting or each.delayed or each.drift
    ]


def compare_with_code(
    queues: Iterable[QueueView], listed: Iterable[ListedQueue], declared: ServiceContract
) -> list[QueueView]:
    """Say how the queues of a service differ from its code, and add those that are only in code."""
    on_server = {each.queue.name: each.queue for each in listed}
    found = {queue.name: queue for queue in queues}
    for job_type in declared.queues:
        bare = QueueView(service=declared.service, type=job_type)
        found.setdefault(bare.name, bare)
    for name, queue in found.items():
        if queue.service == declared.service:
            drift = _drift_from_code(on_server.get(name), queue.type, declared)
            found[name] = queue.model_copy(update={"drift": tuple(drift)})
    return sorted(found.values(), key=_by_name)


def _by_name(queue: QueueView) -> tuple[str, str]:
    return queue.service, queue.type


def _with_consumer(
    listed: ListedQueue,
    stats: TypeStats | None,
    projected: ProjectedQueues | None,
) -> QueueView:
    queue, consumer, oldest = listed.queue, listed.queue.consumer, listed.oldest_at
    workers = None if projected is None else projected.workers.get(queue.name, 0)
    remaining = consumer.pause_remaining
    return QueueView(
        service=queue.service,
        type=queue.job_type,
        depth=consumer.pending,
        in_flight=consumer.ack_pending,
        free_slots=consumer.waiting_pulls,
        ack_wait_ms=consumer.ack_wait // _MILLISECOND,
        paused=consumer.is_paused,
        delivery_limit=consumer.delivery_limit,
        pause_reason=consumer.paused_because,
        paused_by=consumer.paused_by,
        paused_until=None if remaining is None else consumer.at + remaining,
        unattended=is_unattended(consumer, workers),
        oldest_at=oldest,
        oldest_age_ms=None if oldest is None else max(0, (consumer.at - oldest) // _MILLISECOND),
        # The projection does not list a queue that never had a job.
        states=None if projected is None else (stats.states if stats else {}),
        per_minute=None if projected is None else (stats.per_minute if stats else {}),
        workers=workers,
        drift=tuple(_drift_from_contract(queue)),
    )


def _without_consumer(stats: TypeStats, projected: ProjectedQueues) -> QueueView:
    view = QueueView(
        service=stats.service,
        type=stats.type,
        oldest_at=stats.oldest_pending_at,
        oldest_age_ms=stats.oldest_pending_age_ms,
        states=stats.states,
        per_minute=stats.per_minute,
        workers=projected.workers.get(f"{stats.service}/{stats.type}", 0),
        drift=(),
    )
    unattended = view.waiting > 0 and view.workers == 0
    return view.model_copy(update={"unattended": unattended})


def is_unattended(consumer: QueueConsumer, workers: int | None) -> bool:
    """True if jobs wait and no worker pulls, or jobs are in progress and no worker is alive.

    Jobs of a worker that died count as in progress until another worker takes them over.
    `workers` is None without a projection.
    """
    if consumer.is_paused or consumer.waiting_pulls:
        return False
    return consumer.has_no_worker or (consumer.ack_pending > 0 and workers == 0)


def _drift_from_contract(queue: ServerQueue) -> list[str]:
    """Compare the consumer with the contract that the service recorded in it."""
    try:
        contract = queue.contract()
    except DeclarationError as error:
        return [f"its contract cannot be read: {error}"]
    return [] if contract is None else queue.settings_drift(contract, from_code=False)


def _drift_from_code(
    queue: ServerQueue | None, job_type: str, declared: ServiceContract
) -> list[str]:
    in_code = declared.queues.get(job_type)
    if queue is None:
        return [] if in_code is None else [_NEVER_STARTED]
    if in_code is None:
        return ["on the server, but no longer declared"]
    return queue.settings_drift(in_code, from_code=True)
