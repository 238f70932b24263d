"""A service on a test's own account of a server."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from trellis_jobs.service.jobs import Jobs

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    from trellis_jobs.service.service import Service, Workers

J = TypeVar("J", bound=Jobs)


class ConnectService:
    """`async with connected_service(service):` — without workers, unless asked for."""

    def __init__(self, url: str) -> None:
        self.url = url

    def __call__(
        self, service: Service[J], *, workers: bool | Workers = False
    ) -> AbstractAsyncContextManager[Service[J]]:
        return service.connect(self.url, workers=workers)
