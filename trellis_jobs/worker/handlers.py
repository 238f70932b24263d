"""The handlers of a service, at most one for each queue."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from trellis_jobs.errors import DeclarationError
from trellis_jobs.worker.middleware import CallNext, Middleware, check_middleware, wrapped

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trellis_jobs.contract.declaration import JobType


@dataclass(frozen=True, slots=True)
class Handler:
    queue: JobType[Any, Any]
    call: CallNext
    name: str


class Handlers:
    """Returns handlers wrapped in the middleware, so that this is not done for each job."""

    def __init__(self) -> None:
        self._by_queue: dict[str, Handler] = {}
        self._middleware: list[Middleware] = []

    def register(self, queue: JobType[Any, Any], call: CallNext, name: str) -> None:
        present = self._by_queue.get(queue.name)
        if present is not None:
            raise DeclarationError(
                f"queue {queue.name!r} already has the handler {present.name}, not {name}"
            )
        self._by_queue[queue.name] = Handler(queue, call, name)

    def add_middleware(self, middleware: Middleware) -> None:
        check_middleware(middleware)
        self._middleware.append(middleware)

    def get(self, queue_name: str) -> Handler | None:
        found = self._by_queue.get(queue_name)
        return None if found is None else self._wrapped(found)

    def __iter__(self) -> Iterator[Handler]:
        return map(self._wrapped, self._by_queue.values())

    def __contains__(self, queue_name: str) -> bool:
        return queue_name in self._by_queue

    def _wrapped(self, handler: Handler) -> Handler:
        return replace(handler, call=wrapped(handler.call, self._middleware))
