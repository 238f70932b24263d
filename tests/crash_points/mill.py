"""A mill whose jobs live through everything, and what its handlers note of it."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final, cast

from tests.chaos.notebook import Notebook
from tests.keys.work_lab import MANY, Done, Errand, by_key, perform
from trellis_jobs import ActiveJob, Jobs, QueueDepth, Service, job
from trellis_jobs.worker.running_job import RunningJob

ACK_WAIT: Final = 0.5


class MillJobs(Jobs, service="mill"):
    plain = job(Errand, Done, concurrency=10, ack_wait=ACK_WAIT, backoff=[0.05], max_deliver=9)
    single = job(Errand, Done, concurrency=10, ack_wait=ACK_WAIT, max_deliver=1)
    hasty = job(Errand, Done, timeout=0.2, ack_wait=ACK_WAIT, backoff=[0.05], max_deliver=9)
    threaded = job(Errand, Done, ack_wait=ACK_WAIT, backoff=[0.05], max_deliver=9)
    vast = job(Errand, str, ack_wait=ACK_WAIT, max_deliver=9)
    limited = job(Errand, Done, concurrency=10, ack_wait=ACK_WAIT, delivery_limit=1)
    keyed = job(
        Errand, Done, concurrency=10, ack_wait=ACK_WAIT, backoff=[0.05], max_deliver=9,
        key=by_key(), queue=MANY,
    )  # fmt: skip
    strict = job(Errand, Done, ack_wait=ACK_WAIT, max_deliver=9, key=by_key())
    merging = job(
        Errand, Done, ack_wait=ACK_WAIT, max_deliver=9,
        key=by_key(), queue=QueueDepth(max_queued_per_key=0, when_full="coalesce"),
    )  # fmt: skip
    newest = job(
        Errand, Done, concurrency=1, ack_wait=ACK_WAIT, max_deliver=9,
        key=by_key(), queue=QueueDepth(max_queued_per_key=1, when_full="replace-oldest"),
    )  # fmt: skip


QUEUES: Final = tuple(MillJobs.contract.queues)
LIMITS: Final = {
    name: queue.key_policy.max_active
    for name, queue in MillJobs.contract.queues.items()
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

    async def handle(self, active: ActiveJob[Errand]) -> Done:
        self._note("begun", active)
        if self.holds:
            await _hang(active.id)
        if not self.calm:
            await _perform(active)
        self._note("done", active)
        return Done(tries=active.tries)

    def handle_in_thread(self, active: ActiveJob[Errand]) -> Done:
        self._note("begun", active)
        time.sleep(active.payload.seconds)
        self._note("done", active)
        return Done(tries=active.tries)

    async def handle_vastly(self, active: ActiveJob[Errand]) -> str:
        """Its result fits no message."""
        self._note("begun", active)
        if not self.calm:
            return "x" * 2_000_000
        self._note("done", active)
        return "little"

    def _note(self, word: str, active: ActiveJob[Errand]) -> None:
        attempt = cast("RunningJob", active._backend).attempt_context.attempt
        self.notebook.note(word, active.id, attempt.id)


async def _perform(active: ActiveJob[Errand]) -> None:
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
    folder: Path, *, calm: bool = False, holds: bool = False, grace: float = 0.2
) -> Service[MillJobs]:
    service = Service(MillJobs, grace=grace)
    miller = Miller(Notebook(folder / "notes"), calm, holds)
    of_their_own = {"threaded": miller.handle_in_thread, "vast": miller.handle_vastly}
    for name in QUEUES:
        getattr(service.jobs, name).handle(of_their_own.get(name, miller.handle))
    return service
