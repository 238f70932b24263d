"""A worker of the clock service in another process, to be frozen and killed.

Its contract declares no schedule, so its start sets no alarm: tests make the schedules.
"""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.schedules.lab import clock, clock_worker
from tests.support.facts import until
from tests.support.fork_server import ForkedProcess, fork

JOBS: Final = clock()


@dataclass
class ClockProcess:
    process: ForkedProcess
    ready: Path

    async def until_ready(self) -> None:
        await until(self.ready.exists, "the worker process is ready")

    def freeze(self) -> None:
        self.process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self.process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


def start_process(url: str, folder: Path, name: str) -> ClockProcess:
    ready = folder / f"{name}-ready"
    with (folder / f"{name}-output").open("ab") as output:
        process = fork("tests.schedules.clock_process", url, str(ready), stdout=output)
    return ClockProcess(process, ready)


@contextmanager
def clock_process(url: str, folder: Path, name: str = "worker") -> Iterator[ClockProcess]:
    made = start_process(url, folder, name)
    try:
        yield made
    finally:
        made.kill()


async def _main(url: str, ready: Path) -> None:
    async with clock_worker(url, JOBS) as made:
        await asyncio.to_thread(ready.touch)
        await made.service.wait()


if __name__ == "__main__":
    import logging

    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    asyncio.run(_main(sys.argv[1], Path(sys.argv[2])))
