"""The identity of a worker process, which changes if the process was declared dead."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


class WorkerIdentity:
    """Two threads share it: the assignment of `instance` is atomic."""

    __slots__ = ("_new_id", "app_version", "instance")

    def __init__(self, new_id: Callable[[], str], app_version: str | None = None) -> None:
        self._new_id = new_id
        self.app_version = app_version
        self.instance = new_id()

    def renew(self) -> None:
        """Takes a fresh instance id. Attempts that have begun keep the old one."""
        self.instance = self._new_id()
