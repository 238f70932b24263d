"""Which workers a command is about: instance ids, or options that select several."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import typer

from jobs_admin.api.views.workers import WorkerProcessView
from jobs_admin.api.worker_filter import WorkerFilter
from jobs_admin.cli.exit_codes import Missing, UsageError
from jobs_admin.cli.filters import PANEL, Service


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerFilterOptions:
    """A worker must have all that is given."""

    service: Service = None
    label: Annotated[
        list[str] | None,
        typer.Option(help="Only workers with this label. May be repeated.", rich_help_panel=PANEL),
    ] = None
    host: Annotated[
        str | None, typer.Option(help="Only workers on this host.", rich_help_panel=PANEL)
    ] = None
    version: Annotated[
        str | None,
        typer.Option(
            "--version",
            help="Only workers with this version of the application.",
            rich_help_panel=PANEL,
        ),
    ] = None

    @property
    def query(self) -> WorkerFilter:
        return WorkerFilter(
            service=self.service,
            labels=tuple(self.label or ()),
            host=self.host,
            version=self.version,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerSelection(WorkerFilterOptions):
    ids: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="ID",
            help="Instance ids as `workers list` shows them, or how they begin. Not together with "
            "filters.",
            show_default=False,
        ),
    ] = None

    def check(self) -> None:
        """Raises UsageError, with the remedy, if the selection is empty or contradictory."""
        if self.ids and not self.query.is_empty:
            raise UsageError("give either ids or filters: remove the ids, or the options")
        if not self.ids and self.query.is_empty:
            raise UsageError(
                "no workers selected: give the ids of workers, or --service, --label, --host or "
                "--version; `trellis-jobs workers list` shows all of them"
            )

    def choose(self, workers: Sequence[WorkerProcessView]) -> list[WorkerProcessView]:
        """A filter selects only workers that have not ended."""
        if not self.ids:
            return [each for each in self.query.select(workers) if not each.has_ended]
        chosen = {each.instance_id: each for each in (_named(text, workers) for text in self.ids)}
        return list(chosen.values())


def _named(text: str, workers: Sequence[WorkerProcessView]) -> WorkerProcessView:
    found = [worker for worker in workers if worker.instance_id.startswith(text)]
    exact = [worker for worker in found if worker.instance_id == text]
    if not found:
        raise Missing(f"no worker has an id that begins with {text}; see `workers list`")
    if len(found) > 1 and not exact:
        ids = ", ".join(worker.instance_id for worker in found)
        raise UsageError(f"{text} begins the ids of {len(found)} workers: {ids}")
    return (exact or found)[0]
