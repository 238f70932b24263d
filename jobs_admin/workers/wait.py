"""Wait until workers have followed a directive."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from enum import Enum, auto
from typing import TYPE_CHECKING, Final

from trellis_jobs.errors import NotConfirmed, ServiceMissing
from trellis_jobs.model.worker_states import WorkerState

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping

    from jobs_admin.api.views.workers import WorkerProcessView

_POLL_INTERVAL: Final = 0.5

# A service and an instance id.
WorkerId = tuple[str, str]


class Progress(Enum):
    """`OVERRIDDEN`: another operator has directed the worker otherwise since.

    `ENDED`: it has stopped, was declared dead, or its record was removed.
    """

    WAITING = auto()
    FOLLOWED = auto()
    OVERRIDDEN = auto()
    ENDED = auto()


@dataclass(frozen=True, slots=True)
class FollowedWorkers:
    """`records` are the newest ones that were read."""

    progress: Mapping[WorkerId, Progress]
    records: Mapping[WorkerId, WorkerProcessView]

    def having(self, progress: Progress) -> list[WorkerId]:
        return [each for each, found in self.progress.items() if found is progress]


def worker_id(worker: WorkerProcessView) -> WorkerId:
    return worker.service, worker.instance_id


def progress_of(worker: WorkerProcessView | None, state: WorkerState, epoch: int) -> Progress:
    """How far a worker is with a directive; None if it has no record any more.

    A worker that has ended takes no jobs, so it counts as one that followed unless it was resumed.
    A record with a smaller epoch was read before the directive was written.
    """
    if worker is None or worker.has_ended:
        return Progress.ENDED if state is WorkerState.RUNNING else Progress.FOLLOWED
    if worker.epoch < epoch:
        return Progress.WAITING
    if worker.epoch > epoch and _contradicts(worker, state):
        return Progress.OVERRIDDEN
    has_followed = worker.state is state and state is not WorkerState.TERMINATE
    is_done = has_followed and (state is WorkerState.RUNNING or worker.is_idle)
    return Progress.FOLLOWED if is_done else Progress.WAITING


def _contradicts(worker: WorkerProcessView, state: WorkerState) -> bool:
    """Whether a newer directive keeps the worker from following. One that stops is quiet, too."""
    newer = None if worker.wanted is None else worker.wanted.state
    return newer is not state and (state, newer) != (WorkerState.QUIET, WorkerState.TERMINATE)


async def follow_progress(
    read: Callable[[], Awaitable[Iterable[WorkerProcessView]]],
    epochs: Mapping[WorkerId, int],
    state: WorkerState,
) -> AsyncGenerator[FollowedWorkers, None]:
    """Yields the progress of these workers again and again, until none is waited for.

    `epochs` are those of the directives. An admin runtime that restarts does not end the wait.
    """
    while True:
        try:
            found = {worker_id(worker): worker for worker in await read()}
        except (ServiceMissing, NotConfirmed):
            await asyncio.sleep(_POLL_INTERVAL)
            continue
        progress = {
            each: progress_of(found.get(each), state, epoch) for each, epoch in epochs.items()
        }
        yield FollowedWorkers(progress, found)
        if Progress.WAITING not in progress.values():
            return
        await asyncio.sleep(_POLL_INTERVAL)
