"""`trellis-jobs worker --reload`: the worker in a process that is started again at every save."""

from __future__ import annotations

import asyncio
import logging
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Final

from jobs_admin.cli.dev.app_process import GRACE, AppProcess, Restarted
from jobs_admin.cli.dev.sources import watch
from trellis_jobs.worker.signals import handle_signals

if TYPE_CHECKING:
    from collections.abc import Sequence

log = logging.getLogger(__name__)

FLAG: Final = "--reload"


async def keep_restarting(arguments: Sequence[str], grace: float) -> None:
    """Until SIGTERM or Ctrl-C. `arguments` are those of the command `worker` as it was called."""
    kept = [each for each in arguments if each != FLAG]
    # Whoever saves a file waits for the restart: longer jobs are handed back and run again.
    shorter = ("--grace", str(min(grace, GRACE)))
    worker = Restarted(lambda: AppProcess.start((*kept, *shorter), {}), _say_ended)

    def changed() -> None:
        log.info("files changed: the worker starts again")
        worker.start_again()

    tasks = [
        asyncio.create_task(worker.run()),
        asyncio.create_task(watch(Path.cwd(), changed)),
    ]
    enough = asyncio.Event()
    with handle_signals({signal.SIGTERM: enough.set, signal.SIGINT: enough.set}):
        log.info("watching the Python files below %s", Path.cwd())
        told = asyncio.create_task(enough.wait())
        await asyncio.wait({told, *tasks}, return_when=asyncio.FIRST_COMPLETED)
        for task in (told, *tasks):
            task.cancel()
        ends = await asyncio.gather(*tasks, return_exceptions=True)
    for end in ends:
        if isinstance(end, Exception):
            raise end


def _say_ended(how: str) -> None:
    log.error("the worker %s; it starts again at the next save of a file", how)
