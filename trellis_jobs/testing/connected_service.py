"""Connects a service to the account of a test."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from trellis_jobs.service.jobs import Jobs

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    from trellis_jobs.service.service import Service
    from trellis_jobs.service.worker_selection import Workers

J = TypeVar("J", bound=Jobs)


class ConnectService:
    """`async with connected_service(service):` connects it, by default without workers."""

    def __init__(self, url: str) -> None:
        self.url = url

    def __call__(
        self, service: Service[J], *, workers: bool | Workers = False
    ) -> AbstractAsyncContextManager[Service[J]]:
        return service.connect(self.url, workers=workers)
