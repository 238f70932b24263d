"""The queues that the running workers of each service know, by their code."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from trellis_jobs.model.worker_states import WorkerState

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from trellis_jobs.model.schedules.address import ScheduleAddress
    from trellis_jobs.model.worker_record import WorkerRecord


@dataclass(frozen=True, slots=True)
class KnownQueues:
    """`by_service` has the services of which each running worker says which queues it knows."""

    by_service: Mapping[str, frozenset[str]]

    def lacks(self, schedule: ScheduleAddress) -> bool:
        """Whether workers of the service run, and none of them knows the queue."""
        known = self.by_service.get(schedule.service)
        return known is not None and schedule.job_type not in known


def known_queues(workers: Iterable[WorkerRecord]) -> KnownQueues:
    """`workers` are those that are not silent. Quiet ones fire schedules, too."""
    found: dict[str, list[frozenset[str] | None]] = defaultdict(list)
    for worker in workers:
        if worker.verdict is None and worker.state is not WorkerState.TERMINATED:
            found[worker.profile.service].append(worker.profile.known_queues)
    return KnownQueues(
        {
            service: frozenset().union(*(queues for queues in sets if queues is not None))
            for service, sets in found.items()
            if None not in sets
        }
    )
