"""A process dies exactly where it is told to: before or after, the first time or a later one."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import signal
from pathlib import Path
from typing import Final

import pytest

from tests.crash_points.points import Side, sites_in
from tests.crash_points.tripwire import Trap, Tripwire

SITES: Final = sites_in(__name__, Path(__file__))
POINT: Final = f"{__name__}:walk:step"


async def step(said: int, word: bytes) -> None:
    await asyncio.sleep(0)
    os.write(said, word)


async def walk(said: int) -> None:
    for word in (b"one ", b"two ", b"three "):
        os.write(said, b"to ")
        await step(said, word)


def walk_until(trap: Trap | None, said: Path) -> None:
    tripwire = Tripwire(SITES, trap)
    tripwire.set()
    asyncio.run(walk(os.open(said, os.O_WRONLY | os.O_CREAT)))
    os._exit(tripwire.passed[POINT, Side.AFTER])


@pytest.mark.parametrize(
    ("trap", "said", "ended"),
    [
        (Trap(POINT, Side.BEFORE), "to ", -signal.SIGKILL),
        (Trap(POINT, Side.AFTER), "to one ", -signal.SIGKILL),
        (Trap(POINT, Side.BEFORE, 3), "to one to two to ", -signal.SIGKILL),
        (Trap(POINT, Side.AFTER, 3), "to one to two to three ", -signal.SIGKILL),
        (Trap(POINT, Side.AFTER, 4), "to one to two to three ", 3),
        (None, "to one to two to three ", 3),
    ],
    ids=str,
)
def test_it_dies_where_it_is_told_to(
    tmp_path: Path, trap: Trap | None, said: str, ended: int
) -> None:
    path = tmp_path / "said"
    forks = multiprocessing.get_context("forkserver")
    walker = forks.Process(target=walk_until, args=(trap, path))
    walker.start()
    walker.join()
    assert (path.read_text(), walker.exitcode) == (said, ended)
