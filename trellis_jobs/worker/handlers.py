"""Which function handles which queue; each queue has at most one."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from trellis_jobs.errors import DeclarationError
from trellis_jobs.worker.active_job import ActiveJob

if TYPE_CHECKING:
    from trellis_jobs.contract.declaration import JobType

Call = Callable[[ActiveJob[Any]], Awaitable[Any]]


@dataclass(frozen=True, slots=True)
class Handler:
    queue: JobType[Any, Any]
    call: Call
    name: str


class Handlers:
    def __init__(self) -> None:
        self._by_queue: dict[str, Handler] = {}

    def register(self, queue: JobType[Any, Any], call: Call, name: str) -> None:
        present = self._by_queue.get(queue.name)
        if present is not None:
            raise DeclarationError(
                f"queue {queue.name!r} is handled by {present.name} already, not by {name} too"
            )
        self._by_queue[queue.name] = Handler(queue, call, name)

    def get(self, queue_name: str) -> Handler | None:
        return self._by_queue.get(queue_name)

    def __iter__(self) -> Iterator[Handler]:
        return iter(self._by_queue.values())

    def __contains__(self, queue_name: str) -> bool:
        return queue_name in self._by_queue
