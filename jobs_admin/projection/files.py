"""Identifies and replaces the projection's file.

A file is replaced while readers, and perhaps a writer, have it open. They notice by its identity
that another file is at the path now, and open that one.
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

# SQLite's write-ahead log and its other auxiliary files.
_NOT_YET_IN: Final = "-wal"
_SIDECARS: Final = (_NOT_YET_IN, "-shm", "-journal")


@dataclass(frozen=True, slots=True)
class Stamp:
    """`written`: size and modification time of the file and of its write-ahead log."""

    file: FileId
    written: tuple[tuple[int, int] | None, ...]


class FileReplaced(AdminError):
    """Another file is at this path now, and readers use that one."""

    def __init__(self, path: Path) -> None:
        super().__init__(f"{path} was replaced or deleted")


class FileMissing(AdminError):
    def __init__(self, path: Path) -> None:
        super().__init__(f"there is no file at {path}")


class FileLocked(AdminError):
    """Another process has locked the file for longer than the timeout."""

    def __init__(self, why: Exception) -> None:
        super().__init__(
            f"another process, perhaps a rebuild, has locked the projection's file: {why}"
        )


class FileDamaged(AdminError):
    """The file's content is damaged; it can be rebuilt from the log."""


def file_id(path: Path) -> FileId | None:
    """Return None when there is no such file. The id is unique while a process has it open."""
    found = stamp(path)
    return found.file if found else None


def stamp(path: Path) -> Stamp | None:
    """Return what changes when a process writes to the file; None when there is no such file."""
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
    """Create an empty file if there is none, and return its identity.

    SQLite gives its auxiliary files the permissions of this file.
    """
    make_file(path)
    return file_id(path)


def read_only(path: Path) -> str:
    """The URI with which SQLite opens the file read-only."""
    return f"file:{quote(str(path))}?mode=ro"


def beside(path: Path, what: str) -> Path:
    return path.with_name(f"{path.name}.{what}")


def remove(path: Path) -> None:
    path.unlink(missing_ok=True)
    for sidecar in _SIDECARS:
        path.with_name(path.name + sidecar).unlink(missing_ok=True)


def put_in_place(fresh: Path, path: Path, *, keep_old_as: Path | None = None) -> None:
    """Move `fresh` to `path`; no process has it open, and it has no auxiliary files.

    The old file is removed first, then its auxiliary files, because SQLite would replay them into
    the new file. A crash in between leaves no file, and the next start rebuilds it from the log.
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
