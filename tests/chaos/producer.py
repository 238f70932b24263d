"""A producer of the campaign as a program: creates, cancels, and acts as an operator does."""

from __future__ import annotations

import asyncio
import logging
import signal
import sys
from pathlib import Path
from random import Random
from typing import Final

from jobs_admin.api.client import AdminClient
from tests.chaos.notebook import Notebook
from tests.chaos.schedule_changer import ScheduleChanger, pause_as_operator_until
from tests.chaos.workload import CHAOS, Move, Wish, wish
from tests.support.example_service import ExampleJobs, Report, Task
from tests.support.facts import DEADLINE
from trellis_jobs import Accepted, JobRef, Queue, Replaced, Service
from trellis_jobs.errors import JobExists, JobsError

log = logging.getLogger(__name__)

CREATORS: Final = 4
PAUSE: Final = 0.3
LOOK_AT_DEAD: Final = 1.0
TIMEOUT: Final = 5.0


class Creator:
    """Names its jobs itself, so that one whose create was not answered can be found as well."""

    def __init__(
        self, name: str, jobs: ExampleJobs[Task, Report], notebook: Notebook, chance: Random
    ) -> None:
        self._name = name
        self._jobs = jobs
        self._notebook = notebook
        self._chance = chance

    async def create_until(self, stop: asyncio.Event) -> None:
        number = 0
        while not stop.is_set():
            number += 1
            await self._create(f"{self._name}-{number}", wish(self._chance))
            await asyncio.sleep(self._chance.uniform(0, PAUSE))

    async def _create(self, job_id: str, wanted: Wish) -> None:
        queue: Queue[Task, Report] = getattr(self._jobs, wanted.queue)
        self._notebook.note("asked", job_id)
        try:
            outcome = await queue.submit(
                wanted.errand, job_id=job_id, deadline=wanted.deadline, delay=wanted.delay
            )
        except JobExists:
            self._notebook.note("exists", job_id)
            return
        except JobsError as error:
            log.info("unknown whether %s was created: %s", job_id, error)
            self._notebook.note("unknown", job_id)
            return
        if not isinstance(outcome, Accepted | Replaced):
            self._notebook.note("refused", job_id)
            return
        self._notebook.note("created", job_id)
        for after, move in wanted.moves:
            await asyncio.sleep(after)
            await self._move(outcome.ref, move)
        if wanted.cancel_after is not None:
            await asyncio.sleep(wanted.cancel_after)
            await self._cancel(outcome.ref)

    async def _cancel(self, ref: JobRef[Report]) -> None:
        try:
            await ref.cancel(reason="no longer wanted")
        except JobsError as error:
            log.info("not cancelled: %s", error)

    async def _move(self, ref: JobRef[Report], move: Move) -> None:
        """Whatever it waits for: its time, a worker, or its next try."""
        try:
            match move:
                case Move.EARLIER:
                    await ref.reschedule(delay=0.2)
                case Move.LATER:
                    await ref.reschedule(delay=2)
                case Move.NOW:
                    await ref.run_now()
        except JobsError as error:
            log.info("not moved: %s", error)


async def operate_until(stop: asyncio.Event, client: AdminClient, chance: Random) -> None:
    """Replays some dead jobs, dismisses others; requests that fail are for the next look."""
    while not stop.is_set():
        await asyncio.sleep(LOOK_AT_DEAD)
        try:
            for dead in (await client.list_dead(limit=5)).entries:
                await chance.choice([client.replay, client.dismiss])(dead.id)
        except JobsError as error:
            log.info("not steered: %s", error)


async def _main(url: str, folder: Path, seed: str) -> None:
    service = Service(CHAOS)
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    notebook = Notebook(folder / "notes")
    name = f"{folder.parent.name}-{folder.name}"
    async with (
        service.connect(url, workers=False, connect_timeout=DEADLINE),
        AdminClient.connect(url, by="operator", timeout=TIMEOUT) as client,
        asyncio.TaskGroup() as tasks,
    ):
        (folder / "ready").touch()
        for number in range(CREATORS):
            chance = Random(f"{seed} {name} {number}")  # noqa: S311 - the same at each run
            creator = Creator(f"{name}-{number}", service.jobs, notebook, chance)
            tasks.create_task(creator.create_until(stop))
        chance = Random(f"{seed} {name}")  # noqa: S311 - the same at each run
        tasks.create_task(operate_until(stop, client, chance))
        tasks.create_task(pause_as_operator_until(stop, client, chance))
        changer = ScheduleChanger(service.jobs, notebook, chance)
        tasks.create_task(changer.change_until(stop))


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    asyncio.run(_main(sys.argv[1], Path(sys.argv[2]), sys.argv[3]))
