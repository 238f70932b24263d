"""`trellis-jobs worker --reload`: run the worker in a process that restarts when a file changes."""

from __future__ import annotations

import asyncio
import logging
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Final

from jobs_admin.cli.dev.app_process import GRACE, AppProcess, RestartingProcess
from jobs_admin.cli.dev.sources import watch
from trellis_jobs.worker.signals import handle_signals

if TYPE_CHECKING:
    from collections.abc import Sequence

log = logging.getLogger(__name__)

FLAG: Final = "--reload"


async def keep_restarting(arguments: Sequence[str], grace: float) -> None:
    """Runs until SIGTERM or Ctrl-C. `arguments` are the original arguments of `worker`."""
    kept = [each for each in arguments if each != FLAG]
    # A developer waits for the restart: jobs that take longer are put back and run again.
    shorter = ("--grace", str(min(grace, GRACE)))
    worker = RestartingProcess(lambda: AppProcess.start((*kept, *shorter), {}), _log_end)

    def changed() -> None:
        log.info("files changed, restarting the worker")
        worker.restart()

    tasks = [
        asyncio.create_task(worker.run()),
        asyncio.create_task(watch(Path.cwd(), changed)),
    ]
    stop = asyncio.Event()
    with handle_signals({signal.SIGTERM: stop.set, signal.SIGINT: stop.set}):
        log.info("watching the Python files in %s", Path.cwd())
        stopped = asyncio.create_task(stop.wait())
        await asyncio.wait({stopped, *tasks}, return_when=asyncio.FIRST_COMPLETED)
        for task in (stopped, *tasks):
            task.cancel()
        ends = await asyncio.gather(*tasks, return_exceptions=True)
    for end in ends:
        if isinstance(end, Exception):
            raise end


def _log_end(how: str) -> None:
    log.error("the worker %s; it restarts when a file changes", how)
