"""Files and folders that only their owner may read, as they contain payloads and errors."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pathlib import Path

OWNER_ONLY_FILE: Final = 0o600
OWNER_ONLY_FOLDER: Final = 0o700


def make_folder(folder: Path) -> None:
    """Create the folder and its missing parents; existing ones keep their permissions."""
    if not folder.is_dir():
        make_folder(folder.parent)
        folder.mkdir(mode=OWNER_ONLY_FOLDER, exist_ok=True)


def make_file(path: Path) -> None:
    """Create an empty file and its folder; an existing file keeps its permissions."""
    make_folder(path.parent)
    path.touch(mode=OWNER_ONLY_FILE)


def owner_only(path: str, flags: int) -> int:
    """An opener for `open`."""
    return os.open(path, flags, OWNER_ONLY_FILE)


def open_lock(path: Path) -> int:
    """Open the file, creating it if it is missing, without truncating it.

    Raises OSError for a symbolic link, because another user could let it point to any file.
    """
    flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0)
    try:
        return os.open(path, flags, OWNER_ONLY_FILE)
    except OSError as error:
        if error.errno == errno.ELOOP:
            why = "the lock file is a symbolic link and is not followed; remove it"
            raise OSError(errno.ELOOP, why, str(path)) from None
        raise
