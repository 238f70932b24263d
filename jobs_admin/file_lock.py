"""A lock for the writer of a projection: two writers of one file would count every job twice."""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

from jobs_admin.api.errors import ProjectionLocked
from jobs_admin.private_files import make_folder, open_lock

if sys.platform != "win32":
    import fcntl

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@contextmanager
def only_writer(path: Path) -> Iterator[None]:
    """Hold the lock until the block is left or the process ends, even if it is killed.

    The lock is a separate file beside the projection, because a rebuild replaces the projection.
    Raises ProjectionLocked when another process holds the lock.
    """
    make_folder(path.parent)
    with os.fdopen(open_lock(path.with_name(f"{path.name}.lock")), "r+b") as lock:
        if sys.platform != "win32":
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise ProjectionLocked(path) from None
        yield
