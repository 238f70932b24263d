"""The service under load: one queue with all the jobs, and one whose handler never comes back."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final, cast

from tests.chaos.notebook import Notebook
from tests.support.example_service import ExampleJobs, Report, Task, example_jobs
from tests.support.facts import until
from trellis_jobs import ActiveJob, Service
from trellis_jobs.worker.running_job import RunningJob

_FOR_EVER: Final = 3600.0


LOAD: Final = example_jobs(
    "load",
    Task,
    Report,
    plain={"concurrency": 20, "ack_wait": 5, "backoff": [0.2], "max_deliver": 60},
    stuck={"concurrency": 1, "ack_wait": 5, "backoff": [0.2], "max_deliver": 60},
)


@dataclass(frozen=True)
class Hands:
    """Note by attempt what is begun and done; the stuck ones go on once the file `go` is there."""

    notebook: Notebook
    go: Path

    async def handle(self, active: ActiveJob[Task]) -> Report:
        self._note("begun", active)
        self._note("done", active)
        return Report(tries=active.tries)

    async def hang(self, active: ActiveJob[Task]) -> Report:
        self._note("begun", active)
        await until(self.go.exists, "the stuck go on", deadline=_FOR_EVER)
        self._note("done", active)
        return Report(tries=active.tries)

    def _note(self, word: str, active: ActiveJob[Task]) -> None:
        self.notebook.note(
            word, active.id, cast("RunningJob", active._backend).attempt_context.attempt.id
        )


def load_service(hands: Hands) -> Service[ExampleJobs[Task, Report]]:
    service = Service(LOAD, grace=5.0)
    service.jobs.plain.handle(hands.handle)
    service.jobs.stuck.handle(hands.hang)
    return service
