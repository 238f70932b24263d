"""The jobs of a service for web views and scripts: from any thread, without an event loop."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from trellis_jobs.errors import DeclarationError
from trellis_jobs.service.sync.queue import SyncQueue

if TYPE_CHECKING:
    from typing import Self

    from trellis_jobs.service.queue import Queue
    from trellis_jobs.service.runtime import Runtime
    from trellis_jobs.service.sync.bridge import Bridge

P = TypeVar("P")
R = TypeVar("R")


class SyncClient:
    """Made by `service.connect_sync(url)`; connects at its first use, once in each process.

    `with` connects at once and closes at the end (of the last such block, if several overlap).
    Without `with` it is closed when the program ends. After a close, the next use connects again.
    """

    def __init__(self, bridge: Bridge) -> None:
        self._bridge = bridge
        # A list, because appending and popping need no lock, which a fork could leave locked.
        self._blocks: list[None] = []

    def queue(self, queue: Queue[P, R], /) -> SyncQueue[P, R]:
        """`client.queue(service.jobs.send_email)`: the queue with blocking methods, typed alike."""
        if queue.runtime.service != self._bridge.service:
            raise DeclarationError(
                f"queue {queue.type.name!r} belongs to service {queue.runtime.service!r}, "
                f"this client to {self._bridge.service!r}"
            )
        return SyncQueue(queue.type, self._bridge)

    def close(self) -> None:
        self._bridge.close()

    def __enter__(self) -> Self:
        self._bridge.run(_connect)
        self._blocks.append(None)
        return self

    def __exit__(self, *_: object) -> None:
        self._blocks.pop()
        if not self._blocks:
            self.close()


async def _connect(_: Runtime) -> None:
    """Being run is all it takes."""
