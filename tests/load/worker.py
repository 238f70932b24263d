"""A process with several workers, each with a separate connection, as a program."""

from __future__ import annotations

import asyncio
import logging
import signal
import sys
from contextlib import AsyncExitStack
from pathlib import Path

from tests.chaos.notebook import Notebook
from tests.load.jobs import Hands, load_service


async def _main(url: str, folder: Path, go: Path, connections: int) -> None:
    ended = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ended.set)
    hands = Hands(Notebook(folder / "notes"), go)
    async with AsyncExitStack() as stack:
        for _ in range(connections):
            await stack.enter_async_context(load_service(hands).connect(url))
        (folder / "ready").touch()
        await ended.wait()


if __name__ == "__main__":
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)s %(message)s")
    _, url, folder, go, connections = sys.argv
    asyncio.run(_main(url, Path(folder), Path(go), int(connections)))
