"""Detect changes of a project's source files.

The files are polled, which works on every file system. Polling a thousand files takes about 25 ms.
Not watchfiles: every production worker would install it for an option of developers (ADR 11).
"""

from __future__ import annotations

import asyncio
import os
import time
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    # The modification time and the size of each file.
    Snapshot = Mapping[str, tuple[int, int]]

_POLL_INTERVAL: Final = 0.2
# Polling uses at most a tenth of one core, however large the project is.
_REST_FACTOR: Final = 9
_EXCLUDED: Final = frozenset({"__pycache__", "node_modules", "site-packages"})


async def watch(folder: Path, changed: Callable[[], None]) -> None:
    """Call `changed` whenever files in the folder have changed. Never returns."""
    seen = await asyncio.to_thread(snapshot, folder)
    while True:
        seen = await until_changed(folder, seen)
        changed()


async def until_changed(folder: Path, before: Snapshot) -> Snapshot:
    """Return when files differ from `before` and two polls agree: a save can change many files."""
    now = await _poll(folder)
    while now == before:
        now = await _poll(folder)
    while (later := await _poll(folder)) != now:
        now = later
    return now


def snapshot(folder: Path) -> Snapshot:
    return {
        entry.path: (status.st_mtime_ns, status.st_size)
        for entry in _python_files(str(folder))
        if (status := _status(entry)) is not None
    }


async def _poll(folder: Path) -> Snapshot:
    started = time.monotonic()
    files = await asyncio.to_thread(snapshot, folder)
    await asyncio.sleep(max(_POLL_INTERVAL, _REST_FACTOR * (time.monotonic() - started)))
    return files


def _python_files(folder: str) -> Iterator[os.DirEntry[str]]:
    """The project's files, without hidden ones and without virtual environments."""
    try:
        entries = list(os.scandir(folder))
    except OSError:  # deleted in the meantime, or not readable
        return
    if any(entry.name == "pyvenv.cfg" for entry in entries):
        return
    for entry in entries:
        if entry.name.startswith(".") or entry.name in _EXCLUDED:
            continue
        if entry.is_dir(follow_symlinks=False):
            yield from _python_files(entry.path)
        elif entry.name.endswith(".py"):
            yield entry


def _status(entry: os.DirEntry[str]) -> os.stat_result | None:
    try:
        return entry.stat()
    except OSError:  # an editor is replacing the file
        return None
