"""A worker of the campaign as a program: notes what its handlers do; its clock can be put off.

SIGUSR1: shift the clock by the number of seconds in the file `clock`.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import sys
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import cast

from tests.chaos.notebook import Notebook
from tests.chaos.workload import CHAOS, QUEUES
from tests.support.example_service import Report, Task, perform
from tests.support.facts import DEADLINE
from trellis_jobs import ActiveJob, Service, Snooze
from trellis_jobs.environment import utc_now
from trellis_jobs.worker.running_job import RunningJob


class Clock:
    def __init__(self, path: Path) -> None:
        self._path = path
        self._off = timedelta()

    def now(self) -> datetime:
        return utc_now() + self._off

    def jump(self) -> None:
        self._off = timedelta(seconds=float(self._path.read_text()))


class Hands:
    """What handlers did is noted by attempt: the log says what became of each."""

    def __init__(self, notebook: Notebook) -> None:
        self._notebook = notebook

    async def handle(self, active: ActiveJob[Task]) -> Report:
        attempt = cast("RunningJob", active._backend).attempt_context.attempt.id
        self._notebook.note("begun", active.id, attempt)
        if active.payload.do == "nap":
            await active.progress(current=1, total=2)
        try:
            await perform(active, _no_word)
        except Snooze:
            self._notebook.note("snoozed", active.id, attempt)
            raise
        self._notebook.note("done", active.id, attempt)
        return Report(tries=active.tries)


async def _no_word(_: str) -> None:
    raise AssertionError("no handler waits here")


async def _main(url: str, folder: Path) -> None:
    service = Service(CHAOS, grace=2.0, dead_after=4)
    clock = Clock(folder / "clock")
    runtime = service._runtime
    runtime.environment = replace(runtime.environment, now=clock.now)
    asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, clock.jump)
    hands = Hands(Notebook(folder / "notes"))
    for queue in QUEUES:
        getattr(service.jobs, queue).handle(hands.handle)
    async with service.connect(url, connect_timeout=DEADLINE):
        ending = asyncio.create_task(service.wait())
        await asyncio.sleep(0)  # now it listens to signals
        (folder / "ready").touch()
        await ending


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    asyncio.run(_main(sys.argv[1], Path(sys.argv[2])))
