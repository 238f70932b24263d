"""Which worker processes are meant. The same filter is used by requests and by direct reads."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import BaseModel, ConfigDict

if TYPE_CHECKING:
    from collections.abc import Iterable

    from jobs_admin.api.views.workers import WorkerProcessView


class WorkerFilter(BaseModel):
    """A worker matches if it has all that is given. `version` is that of the application."""

    model_config = ConfigDict(frozen=True)

    service: str | None = None
    labels: tuple[str, ...] = ()
    host: str | None = None
    version: str | None = None
    id_prefix: str | None = None

    @property
    def is_empty(self) -> bool:
        return self == WorkerFilter()

    def matches(self, worker: WorkerProcessView) -> bool:
        return (
            self.service in (None, worker.service)
            and set(self.labels) <= set(worker.labels)
            and self.host in (None, worker.hostname)
            and self.version in (None, worker.app_version)
            and worker.instance_id.startswith(self.id_prefix or "")
        )

    def select(self, workers: Iterable[WorkerProcessView]) -> list[WorkerProcessView]:
        return [worker for worker in workers if self.matches(worker)]
