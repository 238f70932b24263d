"""How far the rebuild of a projection is: for those who wait for it."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

log = logging.getLogger(__name__)

_LOG_INTERVAL: Final = 5.0


class RebuildProgress:
    """`done` of `total` messages; logged every few seconds, because a rebuild may take minutes."""

    def __init__(self, path: Path, clock: Callable[[], float] = time.monotonic) -> None:
        self.done = 0
        self.total = 0
        self._path = path
        self._clock = clock
        self._logged_at = clock()

    def tell(self, done: int, total: int) -> None:
        self.done, self.total = done, total
        if self._clock() - self._logged_at >= _LOG_INTERVAL:
            self._logged_at = self._clock()
            log.info(
                "rebuilding the projection %s: %s of %s messages",
                self._path,
                done,
                total,
                extra={"path": str(self._path), "messages": done, "of": total},
            )
