"""One process at a time: two that project into one file would count every job twice."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

from jobs_admin.errors import ProjectionTaken

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
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.with_name(f"{path.name}.lock").open("w") as lock:
        if sys.platform != "win32":
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise ProjectionTaken(path) from None
        yield
