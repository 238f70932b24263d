"""One process at a time: two that project into one file would count every job twice."""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

from jobs_admin.api.errors import ProjectionTaken
from jobs_admin.private_files import make_folder, open_lock

if sys.platform != "win32":
    import fcntl

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@contextmanager
def only_writer(path: Path) -> Iterator[None]:
    """Held until the block is left or the process ends, however it ends.

    The lock is a file beside the projection: that one is replaced by rebuilds.
    """
    make_folder(path.parent)
    with os.fdopen(open_lock(path.with_name(f"{path.name}.lock")), "r+b") as lock:
        if sys.platform != "win32":
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise ProjectionTaken(path) from None
        yield
