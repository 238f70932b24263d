"""Worker processes, grouped by service and by version of the application."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from jobs_admin.api.views.services import ServiceView, WorkerView
    from jobs_admin.api.views.workers import WorkerProcessView


@dataclass(frozen=True, slots=True)
class Slots:
    """The slots of one queue of a process, and how many of them run a job."""

    type: str
    used: int
    total: int
    waiting_for_key: int


@dataclass(frozen=True, slots=True)
class Process:
    """`loop_blocked_ms` and `clock_offset_ms` are from its heartbeats, if they report any."""

    worker: WorkerProcessView
    slots: tuple[Slots, ...]
    loop_blocked_ms: int | None
    clock_offset_ms: int | None

    @property
    def used(self) -> int:
        return sum(each.used for each in self.slots)


@dataclass(frozen=True, slots=True)
class VersionGroup:
    """`version` is that of the application, or None if its workers do not tell it."""

    version: str | None
    processes: tuple[Process, ...]

    @property
    def alive(self) -> int:
        return sum(not each.worker.has_ended for each in self.processes)


@dataclass(frozen=True, slots=True)
class ServiceGroup:
    service: str
    versions: tuple[VersionGroup, ...]

    @property
    def processes(self) -> tuple[Process, ...]:
        return tuple(process for version in self.versions for process in version.processes)

    @property
    def alive(self) -> tuple[Process, ...]:
        return tuple(each for each in self.processes if not each.worker.has_ended)

    @property
    def used(self) -> int:
        return sum(each.used for each in self.alive)

    @property
    def total(self) -> int:
        return sum(each.worker.concurrency for each in self.alive)

    @property
    def is_rolling(self) -> bool:
        """Workers of several versions run: a deploy is under way, or it has stopped halfway."""
        return sum(version.alive > 0 for version in self.versions) > 1


def worker_groups(
    workers: Iterable[WorkerProcessView], services: Iterable[ServiceView]
) -> list[ServiceGroup]:
    """The newest version of each service first."""
    beats: dict[tuple[str, str], list[WorkerView]] = {}
    for beat in (beat for service in services for beat in service.workers):
        beats.setdefault((beat.service, beat.instance_id), []).append(beat)
    found: dict[str, dict[str | None, list[Process]]] = {}
    for worker in workers:
        process = _process(worker, beats.get((worker.service, worker.instance_id), []))
        found.setdefault(worker.service, {}).setdefault(worker.app_version, []).append(process)
    return [
        ServiceGroup(service, tuple(_versions(versions)))
        for service, versions in sorted(found.items())
    ]


def _versions(versions: dict[str | None, list[Process]]) -> Iterable[VersionGroup]:
    groups = [
        VersionGroup(version, tuple(sorted(processes, key=_by_name)))
        for version, processes in versions.items()
    ]
    return sorted(groups, key=_started, reverse=True)


def _started(group: VersionGroup) -> float:
    return max(each.worker.started_at.timestamp() for each in group.processes)


def _by_name(process: Process) -> tuple[bool, str, int]:
    return process.worker.has_ended, process.worker.hostname, process.worker.pid


def _process(worker: WorkerProcessView, beats: list[WorkerView]) -> Process:
    slots = tuple(
        Slots(
            queue.type,
            len(worker.active_job_ids.get(queue.type, ())),
            queue.concurrency,
            len(worker.held_job_ids.get(queue.type, ())),
        )
        for queue in worker.queues
    )
    blocked = [beat.loop_blocked_ms for beat in beats if beat.loop_blocked_ms is not None]
    offsets = [beat.clock_offset_ms for beat in beats if beat.clock_offset_ms is not None]
    return Process(worker, slots, max(blocked, default=None), max(offsets, key=abs, default=None))
