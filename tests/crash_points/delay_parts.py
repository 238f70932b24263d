"""What a process under test does with delayed jobs: create them, move them, and create many."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Final

from tests.chaos.notebook import Notebook
from tests.crash_points.mill import MILL
from tests.support.example_service import Report, Task, TaskJobs
from tests.support.facts import DEADLINE
from trellis_jobs import JobRef, Queue, Service
from trellis_jobs.errors import JobExists

# Seconds: for the worker that holds the alarm, for the server that keeps it, and a while longer.
AT_ONCE: Final = 0.3
SOON: Final = 1.2
LATER: Final = 2.5
FAR: Final = 6.0
RETRYING: Final = ("retrying-plain", "retrying-keyed")
IN_A_ROW: Final = 300


async def delay(url: str, folder: Path) -> None:
    """No worker runs. Two jobs wait for their next try."""
    service, promised = Service(MILL), Notebook(folder / "promised")
    async with service.connect(url, workers=False, connect_timeout=DEADLINE):
        await _create(service.jobs, promised)
        await _move(service.jobs, promised)
    (folder / "ready").touch()


async def _create(jobs: TaskJobs, promised: Notebook) -> None:
    for queue in (jobs.plain, jobs.keyed, jobs.ousting):
        for number, seconds in enumerate((AT_ONCE, SOON)):
            await _delayed(queue, f"{queue.type.name}-{number}", seconds, promised)
    for ref in await jobs.plain.create_many([Task()] * 3, delay=SOON):
        promised.note(ref.id)
    # The alarm that is set already is kept, or replaced by this one, and the job is not.
    for seconds in (SOON / 2, LATER):
        with suppress(JobExists):
            await jobs.plain.create(Task(), job_id="plain-1", delay=seconds)


async def _move(jobs: TaskJobs, promised: Notebook) -> None:
    earlier, later, now, unwanted = [
        await _delayed(jobs.plain, f"moved-{number}", seconds, promised)
        for number, seconds in enumerate((FAR, SOON, FAR, FAR))
    ]
    await earlier.reschedule(delay=SOON)
    await later.reschedule(delay=LATER)
    await now.run_now()
    await unwanted.cancel()
    for queue in (jobs.plain, jobs.keyed):
        waiting = await queue.create(Task(), job_id=f"waiting-{queue.type.name}")
        promised.note(waiting.id)
        await waiting.reschedule(delay=SOON)
    await jobs.plain.ref(RETRYING[0]).run_now()
    await jobs.keyed.ref(RETRYING[1]).reschedule(delay=SOON)


async def _delayed(
    queue: Queue[Task, Report], job_id: str, seconds: float, promised: Notebook
) -> JobRef[Report]:
    ref = await queue.create(Task(), job_id=job_id, delay=seconds)
    promised.note(job_id)
    return ref


async def delay_in_a_row(url: str, folder: Path) -> None:
    service, promised = Service(MILL), Notebook(folder / "promised")
    async with service.connect(url, workers=False, connect_timeout=DEADLINE):
        for ref in await service.jobs.plain.create_many([Task()] * IN_A_ROW, delay=SOON):
            promised.note(ref.id)
    (folder / "ready").touch()
