"""The service that tests use: each test names the queues and the options that it needs.

    SHOP = example_jobs("shop", Task, Report, ship={"ack_wait": 1}, bill={"max_deliver": 1})
    service = Service(SHOP)
    ref = await service.jobs.ship.create(Task(do="fail once"))

Tests of declarations, types and manifests declare their services themselves.
"""

from __future__ import annotations

import asyncio
import time
import types
from collections import defaultdict
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar, cast

from pydantic import BaseModel

from tests.support.facts import until
from trellis_jobs import ActiveJob, Fail, JobRef, Jobs, Queue, Retry, Service, Snooze, job
from trellis_jobs.contract.declaration import JobOptions

P = TypeVar("P")
R = TypeVar("R")


class Task(BaseModel):
    """`do` is what `perform` makes of it. Keyed queues take their key from `key`."""

    do: str = "answer"
    text: str = ""
    key: str | None = "acme"
    seconds: float = 0.0


class Report(BaseModel):
    tries: int
    text: str = ""


class ExampleJobs(Jobs, Generic[P, R], service="example"):
    """A service whose queues all have the same payload and result."""

    if TYPE_CHECKING:

        def __getattr__(self, queue: str) -> Queue[P, R]: ...


def example_jobs(
    service: str, payload: type[P], result: type[R], /, **queues: JobOptions
) -> type[ExampleJobs[P, R]]:
    """Declares a service. Each keyword is a queue, and its value the options of `job(...)`."""
    declared = {name: job(payload, result, **options) for name, options in queues.items()}
    made = types.new_class(
        f"{service.title()}Jobs", (ExampleJobs,), {"service": service}, lambda n: n.update(declared)
    )
    return cast("type[ExampleJobs[P, R]]", made)


def attributes(jobs: type[Jobs]) -> list[str]:
    """The attributes of a service that are queues."""
    return [name for name, value in vars(jobs).items() if isinstance(value, job)]


TaskJobs: TypeAlias = ExampleJobs[Task, Report]
Wait: TypeAlias = Callable[[str], Coroutine[Any, Any, None]]


async def perform(active: ActiveJob[Task], wait: Wait) -> None:
    """What a handler does with its task. `wait` is called with the id of a job that is to wait."""
    task = active.payload
    match task.do:
        case "nap":
            await asyncio.sleep(task.seconds)
        case "block":
            time.sleep(task.seconds)  # noqa: ASYNC251 - a mistake users make
        case "hang" if active.tries == 1:
            await asyncio.Event().wait()
        case "wait" | "wait, then fail once" | "wait, then later":
            await wait(active.id)
    if task.do == "always snooze" or (task.do == "snooze once" and not active.snoozes):
        raise Snooze(task.text, for_=task.seconds)
    _fail(task, active.tries)


def _fail(task: Task, tries: int) -> None:
    match task.do:
        case "fail once" | "wait, then fail once" if tries == 1:
            raise RuntimeError(task.text or "the first try fails")
        case "later" | "wait, then later" if tries == 1:
            raise Retry("not yet", after=task.seconds)
        case "always fail":
            raise RuntimeError(task.text or "it always fails")
        case "give up":
            raise Fail("this cannot work")
        case "key error":
            raise KeyError("missing")


@dataclass
class TaskWorker:
    """A worker in this process: what its handler did, and events that let waiting jobs continue."""

    service: Service[TaskJobs]
    runs: list[tuple[str, int]] = field(default_factory=list)
    active: dict[str, ActiveJob[Task]] = field(default_factory=dict)
    cancelled: list[str] = field(default_factory=list)
    lingering: list[str] = field(default_factory=list)
    go: asyncio.Event = field(default_factory=asyncio.Event)
    _go_on: dict[str, asyncio.Event] = field(default_factory=lambda: defaultdict(asyncio.Event))

    @property
    def jobs(self) -> TaskJobs:
        return self.service.jobs

    @property
    def begun(self) -> list[str]:
        """The jobs whose handlers began, in this order."""
        return [job_id for job_id, _ in self.runs]

    def let_go(self, *refs: JobRef[Any]) -> None:
        """Lets these jobs continue, and not the others that wait."""
        for ref in refs:
            self._go_on[ref.id].set()

    async def until_running(self, *refs: JobRef[Any]) -> ActiveJob[Task]:
        """Returns the last of them."""
        for ref in refs:
            active = await until(partial(self.active.get, ref.id), f"{ref} runs")
        return active

    async def handle(self, active: ActiveJob[Task]) -> Report:
        with self._recorded(active):
            if active.payload.do == "linger":
                await self._linger(active.id)
            await perform(active, self._wait)
        return Report(text=active.payload.text, tries=active.tries)

    @contextmanager
    def _recorded(self, active: ActiveJob[Task]) -> Iterator[None]:
        self.runs.append((active.id, active.tries))
        self.active[active.id] = active
        try:
            yield
        except asyncio.CancelledError:
            self.cancelled.append(active.id)
            raise
        finally:
            del self.active[active.id]

    async def _linger(self, job_id: str) -> None:
        """Takes long to clean up after its cancellation."""
        try:
            await asyncio.Event().wait()
        finally:
            self.lingering.append(job_id)
            await self.go.wait()

    async def _wait(self, job_id: str) -> None:
        waits = [asyncio.ensure_future(event.wait()) for event in (self.go, self._go_on[job_id])]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for each in waits:
                each.cancel()


def task_worker(service: Service[TaskJobs]) -> TaskWorker:
    """A worker with the same handler for every queue of the service."""
    made = TaskWorker(service)
    for name in attributes(type(service.jobs)):
        getattr(made.jobs, name).handle(made.handle)
    return made
