"""A service's contract as a JSON document: the top-level `jobs` map of the original runtimes."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from trellis_jobs.contract.declaration import JobType, ServiceContract
    from trellis_jobs.contract.keying import Keying

FORMAT: Final = "trellis.jobs.service@v1"


def to_manifest(contract: ServiceContract) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "service": contract.service,
        "jobs": {name: _queue(queue) for name, queue in sorted(contract.queues.items())},
    }


def _queue(queue: JobType[Any, Any]) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "payload": {"schema": queue.payload.schema()},
        "result": {"schema": queue.result.schema()},
        "maxDeliver": queue.retry.max_tries,
        "backoffMs": [_milliseconds(delay) for delay in queue.retry.delays],
        "ackWaitMs": _milliseconds(queue.ack_wait),
        "progress": queue.progress,
        "logs": queue.logs,
        "dlq": queue.dead_letters,
        "concurrency": queue.concurrency,
    }
    if queue.deadline is not None:
        entry["defaultDeadlineMs"] = _milliseconds(queue.deadline)
    if queue.timeout is not None:
        entry["timeoutMs"] = _milliseconds(queue.timeout)
    if queue.delivery_limit is not None:
        entry["deliveryLimit"] = queue.delivery_limit
    if queue.shared:
        entry["shared"] = True
    if queue.keying is not None:
        entry |= _keying(queue.keying)
    return entry


def _keying(keying: Keying) -> dict[str, Any]:
    return {
        "keyConcurrency": {
            "key": list(keying.template.segments),
            "maxActive": keying.max_active,
            "heartbeatIntervalMs": _milliseconds(keying.heartbeat_interval),
            "heartbeatTtlMs": _milliseconds(keying.heartbeat_ttl),
            "stalePolicy": keying.stale_policy.value,
        },
        "queue": {"maxQueuedPerKey": keying.max_queued, "whenFull": keying.when_full.value},
    }


def _milliseconds(duration: timedelta) -> int:
    return round(duration / timedelta(milliseconds=1))
