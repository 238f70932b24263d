"""A process that plays a part, until it ends, is told to stop, or passes the point it dies at.

Forked from a server that has imported everything already, so that hundreds of them are cheap.
"""

from __future__ import annotations

import asyncio
import logging
import multiprocessing
import os
import signal
from collections import Counter
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any, Final

import orjson

from tests.crash_points import scope
from tests.crash_points.tripwire import Trap, Tripwire

Part = Callable[[str, Path], Coroutine[Any, Any, None]]

# Found once, in the server that victims are forked from.
SITES: Final = scope.all_sites()
_FORKS: Final = multiprocessing.get_context("forkserver")
_FORKS.set_forkserver_preload(
    [__name__, "tests.crash_points.parts", "tests.crash_points.schedule_parts"]
)


@dataclass
class Victim:
    process: ForkServerProcess
    folder: Path

    @property
    def is_dead(self) -> bool:
        return not self.process.is_alive()

    @property
    def is_ready(self) -> bool:
        return (self.folder / "ready").exists()

    @property
    def passed(self) -> Counter[str]:
        """How often, by side and point; only of one that ended by itself."""
        written = self.folder / "passed"
        return Counter(orjson.loads(written.read_bytes()) if written.exists() else {})

    @property
    def output(self) -> str:
        written = self.folder / "output"
        return written.read_text(errors="replace") if written.exists() else ""

    def send(self, number: signal.Signals) -> None:
        if self.process.is_alive() and self.process.pid is not None:
            os.kill(self.process.pid, number)

    def kill(self) -> None:
        self.process.kill()
        self.process.join()


def start(part: Part, url: str, folder: Path, trap: Trap | None = None) -> Victim:
    process = _FORKS.Process(target=_play, args=(part, url, folder, trap), daemon=True)
    process.start()
    return Victim(process, folder)


def _play(part: Part, url: str, folder: Path, trap: Trap | None) -> None:
    output = os.open(folder / "output", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.dup2(output, 1)
    os.dup2(output, 2)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    asyncio.run(_play_out(part(url, folder), Tripwire(SITES, trap), folder))


async def _play_out(part: Coroutine[Any, Any, None], tripwire: Tripwire, folder: Path) -> None:
    tripwire.set()
    await part
    passed = {f"{side} {point}": times for (point, side), times in tripwire.passed.items()}
    (folder / "passed").write_bytes(orjson.dumps(passed))
    os._exit(0)  # a handler may cling to its task for ever
