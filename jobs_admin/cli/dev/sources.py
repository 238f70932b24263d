"""The source files of a project, and the moment at which they change.

They are looked at, again and again, rather than watched: that works on every file system and needs
no other package. A look at a thousand files takes some 25 ms.
"""

from __future__ import annotations

import asyncio
import os
import time
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    # What tells one version of a file from the next: when it was written, and its size.
    Snapshot = Mapping[str, tuple[int, int]]

_LOOK: Final = 0.2
# However large a project is, looking at it takes a tenth of one core at most.
_REST: Final = 9
_NOT_OURS: Final = frozenset({"__pycache__", "node_modules", "site-packages"})


async def watch(folder: Path, changed: Callable[[], None]) -> None:
    """Call `changed` whenever files of the folder were saved, for ever."""
    seen = await asyncio.to_thread(snapshot, folder)
    while True:
        seen = await until_changed(folder, seen)
        changed()


async def until_changed(folder: Path, before: Snapshot) -> Snapshot:
    """The files once they differ from `before` and have come to rest: a save may be of many."""
    now = await _look(folder)
    while now == before:
        now = await _look(folder)
    while (later := await _look(folder)) != now:
        now = later
    return now


def snapshot(folder: Path) -> Snapshot:
    return {
        entry.path: (status.st_mtime_ns, status.st_size)
        for entry in _python_files(str(folder))
        if (status := _status(entry)) is not None
    }


async def _look(folder: Path) -> Snapshot:
    begun = time.monotonic()
    seen = await asyncio.to_thread(snapshot, folder)
    await asyncio.sleep(max(_LOOK, _REST * (time.monotonic() - begun)))
    return seen


def _python_files(folder: str) -> Iterator[os.DirEntry[str]]:
    """Of the project: not hidden ones, and not those of an environment that is part of it."""
    try:
        entries = list(os.scandir(folder))
    except OSError:  # gone meanwhile, or not for us
        return
    if any(entry.name == "pyvenv.cfg" for entry in entries):
        return
    for entry in entries:
        if entry.name.startswith(".") or entry.name in _NOT_OURS:
            continue
        if entry.is_dir(follow_symlinks=False):
            yield from _python_files(entry.path)
        elif entry.name.endswith(".py"):
            yield entry


def _status(entry: os.DirEntry[str]) -> os.stat_result | None:
    try:
        return entry.stat()
    except OSError:  # an editor replaces files
        return None
