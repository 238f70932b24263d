"""The rules of `doctor` about delayed jobs and the alarms that remind workers of them."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from jobs_admin.doctor.findings import broken, fine, warning
from trellis_jobs.contract.topology import alarms_stream
from trellis_jobs.jetstream.alarms.alarms import missing_remedy
from trellis_jobs.jetstream.alarms.alarms_info import read_alarms_info

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from jobs_admin.api.views.doctor import Finding
    from jobs_admin.api.views.queues import QueueView
    from trellis_jobs.jetstream.alarms.alarms_info import AlarmsInfo
    from trellis_jobs.jetstream.client.connection import Connection

_MAX_SERVICES: Final = 100


@dataclass(frozen=True, slots=True)
class ServiceAlarms:
    """`delayed` is the number of delayed jobs, 0 also if no admin runtime is there to count."""

    service: str
    delayed: int
    info: AlarmsInfo


async def read_alarms(connection: Connection, queues: Iterable[QueueView]) -> list[ServiceAlarms]:
    """The alarms of all services that have queues. Raises NotPermitted."""
    delayed: dict[str, int] = {}
    for queue in queues:
        delayed[queue.service] = delayed.get(queue.service, 0) + queue.delayed
    services = sorted(delayed)[:_MAX_SERVICES]
    infos = await asyncio.gather(*(read_alarms_info(connection, each) for each in services))
    return [
        ServiceAlarms(service, delayed[service], info)
        for service, info in zip(services, infos, strict=True)
    ]


def check_alarms(found: Sequence[ServiceAlarms]) -> list[Finding]:
    problems = [finding for each in found for finding in _check_service(each)]
    if problems:
        return problems
    total = sum(each.delayed for each in found)
    jobs = "1 delayed job" if total == 1 else f"{total:,} delayed jobs"
    return [fine(f"{jobs}, and no alarm waits for a worker")]


def _check_service(found: ServiceAlarms) -> list[Finding]:
    service, info = found.service, found.info
    jobs = "1 delayed job" if found.delayed == 1 else f"{found.delayed:,} delayed jobs"
    if not info.has_stream:
        if not found.delayed:
            return []
        problem = f"{service}: {jobs} cannot start, because {alarms_stream(service)} is missing"
        return [broken(problem, missing_remedy(service))]
    if info.is_received:
        return []
    remedy = f"start workers of {service}, of a version that knows delayed jobs"
    if info.waiting:
        alarms = "1 alarm waits" if info.waiting == 1 else f"{info.waiting:,} alarms wait"
        return [broken(f"{service}: {alarms}, and no worker of the service is up", remedy)]
    if found.delayed:
        return [warning(f"{service}: {jobs}, and no worker of the service is up", remedy)]
    return []
