"""A client for web views and scripts, for any thread without an event loop."""

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
    """Created by `service.connect_sync(url)`. Connects at its first use, once in each process.

    `with` connects at once and closes at the end of the block, or of the last of several that
    overlap. Without `with` it is closed when the program ends. After that, a use connects again.
    """

    def __init__(self, bridge: Bridge) -> None:
        self._bridge = bridge
        # A list, because appending and popping need no lock, which a fork could leave locked.
        self._blocks: list[None] = []

    def queue(self, queue: Queue[P, R], /) -> SyncQueue[P, R]:
        """Returns the queue with blocking methods: `client.queue(service.jobs.send_email)`."""
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
    """Does nothing: the session connects before it runs any call."""
