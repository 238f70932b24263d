"""A mill whose jobs live through everything, and what its handlers note of it."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final, cast

from tests.chaos.notebook import Notebook
from tests.keys.work_lab import MANY, by_key
from tests.support.example_service import ExampleJobs, Report, Task, example_jobs, perform
from trellis_jobs import ActiveJob, QueueDepth, Service
from trellis_jobs.worker.running_job import RunningJob

ACK_WAIT: Final = 0.5
LONG_ACK_WAIT: Final = 120


MILL: Final = example_jobs(
    "mill",
    Task,
    Report,
    plain={"concurrency": 10, "ack_wait": ACK_WAIT, "backoff": [0.05], "max_deliver": 9},
    single={"concurrency": 10, "ack_wait": ACK_WAIT, "max_deliver": 1},
    hasty={"timeout": 0.2, "ack_wait": ACK_WAIT, "backoff": [0.05], "max_deliver": 9},
    threaded={"ack_wait": ACK_WAIT, "backoff": [0.05], "max_deliver": 9},
    vast={"ack_wait": ACK_WAIT, "max_deliver": 9},
    limited={"concurrency": 10, "ack_wait": ACK_WAIT, "delivery_limit": 1},
    # Only a recovery hands these on before the lease of a dead worker ends.
    lasting={"concurrency": 10, "ack_wait": LONG_ACK_WAIT, "backoff": [0.05], "max_deliver": 9},
    final={"ack_wait": LONG_ACK_WAIT, "max_deliver": 1},
    keyed={
        "concurrency": 10,
        "ack_wait": ACK_WAIT,
        "backoff": [0.05],
        "max_deliver": 9,
        "key": by_key(),
        "queue": MANY,
    },
    strict={"ack_wait": ACK_WAIT, "max_deliver": 9, "key": by_key()},
    merging={
        "ack_wait": ACK_WAIT,
        "max_deliver": 9,
        "key": by_key(),
        "queue": QueueDepth(max_queued_per_key=0, when_full="coalesce"),
    },
    newest={
        "concurrency": 1,
        "ack_wait": ACK_WAIT,
        "max_deliver": 9,
        "key": by_key(),
        "queue": QueueDepth(max_queued_per_key=1, when_full="replace-oldest"),
    },
    # Their policy applies to delayed jobs too, when their time comes.
    punctual={
        "concurrency": 10,
        "ack_wait": ACK_WAIT,
        "max_deliver": 9,
        "key": by_key(),
        "queue": QueueDepth(0, "reject", "when-full"),
    },
    ousting={
        "concurrency": 10,
        "ack_wait": ACK_WAIT,
        "max_deliver": 9,
        "key": by_key(),
        "queue": QueueDepth(1, "replace-oldest", "when-full"),
    },
)


QUEUES: Final = tuple(MILL.contract.queues)
LIMITS: Final = {
    name: queue.key_policy.max_active
    for name, queue in MILL.contract.queues.items()
    if queue.key_policy is not None
}


@dataclass(frozen=True, slots=True)
class Miller:
    """Notes, by attempt, what is begun and what is done.

    `calm`: just does it, whatever it is; `holds`: never ends.
    """

    notebook: Notebook
    calm: bool = False
    holds: bool = False

    async def handle(self, active: ActiveJob[Task]) -> Report:
        self._note("begun", active)
        if self.holds:
            await _hang(active.id)
        if not self.calm:
            await _perform(active)
        self._note("done", active)
        return Report(tries=active.tries)

    def handle_in_thread(self, active: ActiveJob[Task]) -> Report:
        self._note("begun", active)
        time.sleep(active.payload.seconds)
        self._note("done", active)
        return Report(tries=active.tries)

    async def handle_vastly(self, active: ActiveJob[Task]) -> Report:
        """Its result fits no message."""
        self._note("begun", active)
        if not self.calm:
            return Report(text="x" * 2_000_000, tries=active.tries)
        self._note("done", active)
        return Report(tries=active.tries)

    def _note(self, word: str, active: ActiveJob[Task]) -> None:
        attempt = cast("RunningJob", active._backend).attempt_context.attempt
        self.notebook.note(word, active.id, attempt.id)


async def _perform(active: ActiveJob[Task]) -> None:
    active.progress(current=1, total=2)
    await perform(active, _cling if active.payload.seconds else _hang)
    if active.payload.do == "nap":
        active.log("rested")
        active.heartbeat()
        await asyncio.sleep(0.05)


async def _hang(_: str) -> None:
    await asyncio.Event().wait()


async def _cling(_: str) -> None:
    """A handler that does not let itself be interrupted."""
    while True:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            continue


def mill(
    folder: Path,
    *,
    calm: bool = False,
    holds: bool = False,
    grace: float = 0.2,
    dead_after: float | None = None,
) -> Service[ExampleJobs[Task, Report]]:
    service = Service(MILL, grace=grace, dead_after=dead_after)
    miller = Miller(Notebook(folder / "notes"), calm, holds)
    of_their_own = {"threaded": miller.handle_in_thread, "vast": miller.handle_vastly}
    for name in QUEUES:
        getattr(service.jobs, name).handle(of_their_own.get(name, miller.handle))
    return service
