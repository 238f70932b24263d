"""Notices when another process deletes, replaces or overwrites the file of an open projection."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from jobs_admin.projection.compatibility import check_integrity
from jobs_admin.projection.files import FileDamaged, FileReplaced, file_id, stamp

if TYPE_CHECKING:
    from pathlib import Path
    from typing import NoReturn

    from jobs_admin.projection.files import Stamp

_POLL_INTERVAL: Final = 2.0


class FileWatch:
    """Checks the file every few seconds, and at once when a reader fails to read it.

    A write by another process changes the file's stamp; then the whole file is read once. After
    our own writes the stamp is not compared.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = file_id(path)
        self._seen: Stamp | None = None
        self._damage: FileDamaged | None = None
        self._called = asyncio.Event()

    def wrote(self) -> None:
        self._seen = None

    def look(self, damage: FileDamaged | None = None) -> None:
        """Check the file at once; `damage` is what a reader found."""
        self._damage = self._damage or damage
        self._called.set()

    async def watch(self) -> NoReturn:
        """Raises FileReplaced or FileDamaged."""
        while True:
            self._called.clear()
            await self._check()
            with suppress(TimeoutError):
                async with asyncio.timeout(_POLL_INTERVAL):
                    await self._called.wait()

    async def _check(self) -> None:
        now = stamp(self._path)
        if now is None or now.file != self._file:
            raise FileReplaced(self._path)
        if self._damage is not None:
            raise self._damage
        if self._seen not in (None, now):
            await check_integrity(self._path)
        self._seen = now
