"""The projection's file: whether it is still the one that was opened, and how another replaces it.

A file is replaced while readers, and perhaps a writer, have it open. They keep what they opened,
notice by the file's identity that it is no longer the one at its path, and open that one.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from jobs_admin.api.errors import AdminError
from jobs_admin.private_files import make_file

if TYPE_CHECKING:
    from pathlib import Path

FileId = tuple[int, int]

# SQLite's own: what is not yet in the file itself, and the index of that.
_NOT_YET_IN: Final = "-wal"
_SIDECARS: Final = (_NOT_YET_IN, "-shm", "-journal")


@dataclass(frozen=True, slots=True)
class Stamp:
    """`written`: size and time of the file, and of what is not yet in it."""

    file: FileId
    written: tuple[tuple[int, int] | None, ...]


class FileReplaced(AdminError):
    """Another file is at this path now: the one that is open is no longer read by anybody."""

    def __init__(self, path: Path) -> None:
        super().__init__(f"{path} was replaced or deleted")


class FileMissing(AdminError):
    def __init__(self, path: Path) -> None:
        super().__init__(f"there is no file at {path}")


class FileLocked(AdminError):
    """Another process writes into the file, for longer than one waits for that."""

    def __init__(self, why: Exception) -> None:
        super().__init__(
            f"another process keeps the projection's file to itself, a rebuild perhaps: {why}"
        )


class FileDamaged(AdminError):
    """What the file holds is not what was written into it; the log has it all."""


def file_id(path: Path) -> FileId | None:
    """None when there is no such file; unique as long as somebody has the file open."""
    found = stamp(path)
    return found.file if found else None


def stamp(path: Path) -> Stamp | None:
    """What changes when somebody writes into a file; None when there is no such file."""
    found, waiting = _stat(path), _stat(path.with_name(f"{path.name}{_NOT_YET_IN}"))
    if found is None:
        return None
    written = tuple(each and (each.st_size, each.st_mtime_ns) for each in (found, waiting))
    return Stamp((found.st_dev, found.st_ino), written)


def _stat(path: Path) -> os.stat_result | None:
    try:
        return path.stat()
    except FileNotFoundError:
        return None


def made(path: Path) -> FileId | None:
    """The identity of the file at a path, which is there afterwards: empty, if it was not.

    SQLite gives its sidecars the permissions of the file.
    """
    make_file(path)
    return file_id(path)


def read_only(path: Path) -> str:
    """As SQLite is told to open it."""
    return f"file:{quote(str(path))}?mode=ro"


def beside(path: Path, what: str) -> Path:
    return path.with_name(f"{path.name}.{what}")


def remove(path: Path) -> None:
    path.unlink(missing_ok=True)
    for sidecar in _SIDECARS:
        path.with_name(path.name + sidecar).unlink(missing_ok=True)


def put_in_place(fresh: Path, path: Path, *, keep_old_as: Path | None = None) -> None:
    """`fresh` becomes the file at `path`; nobody has it open, and it has no sidecars.

    The old file goes first, then its sidecars: SQLite would replay them into whatever file it finds
    at the path. A crash in between leaves no file, and the log to make one from.
    """
    _sync(fresh)
    if keep_old_as is not None and path.exists():
        path.replace(keep_old_as)
    remove(path)
    fresh.replace(path)
    _sync(path.parent)


def _sync(path: Path) -> None:
    opened = os.open(path, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)
