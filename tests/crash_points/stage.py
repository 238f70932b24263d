"""A server of its own for one run, the victim on it, and what a scenario does around it."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Final, TypeVar

from tests.chaos.notebook import Notebook
from tests.crash_points import parts, victim
from tests.crash_points.mill import MILL
from tests.crash_points.tripwire import Trap
from tests.crash_points.victim import Part, Victim
from tests.given import waiting
from tests.keys.work_lab import KeyView, key_view
from tests.support.example_service import Report, Task, TaskJobs
from tests.support.facts import DEADLINE, until
from tests.support.lab import Probe, probe
from tests.support.servers import NEWEST, start_version
from trellis_jobs import JobRef, Queue, Service
from trellis_jobs.contract.topology import WORK
from trellis_jobs.environment import utc_now
from trellis_jobs.jetstream.client import api
from trellis_jobs.model import subjects
from trellis_jobs.model.events import EventKind
from trellis_jobs.model.identity import JobAddress
from trellis_jobs.model.keys.state import KeyAddress
from trellis_jobs.model.subjects import AlarmAddress
from trellis_jobs.model.values import replace
from trellis_jobs.wire import headers as h

R = TypeVar("R")
# Of a machine that has much else to do; it costs nothing where the fact comes.
TIMEOUT: Final = 300.0
Fact = Callable[[], Coroutine[Any, Any, object]] | Callable[[], object]


class VictimDied(Exception):
    """The scenario is over; the run goes on with those who live."""


@dataclass
class Stage:
    """`trap` is where the victim dies; None: nowhere, and all that it passes is counted.

    `repairs_alarms`: the admin runtime that comes after the crash publishes lost alarms again. A
    scenario in which none may be lost does without.
    """

    url: str
    folder: Path
    trap: Trap | None = None
    victim: Victim | None = None
    repairs_alarms: bool = True

    async def begin(self, part: Part, url: str | None = None) -> None:
        """At another address than the server's own, perhaps."""
        self.victim = began = victim.start(part, url or self.url, self.folder, self.trap)
        await self.until(lambda: began.is_ready, "the victim is ready")

    async def end(self) -> None:
        """The victim is told to stop, and does."""
        ending = self.victim
        if ending is not None:
            ending.send(signal.SIGTERM)
            await until(lambda: ending.is_dead, "the victim ends", deadline=TIMEOUT)

    def signal(self, number: signal.Signals) -> None:
        if self.victim is not None:
            self.victim.send(number)

    @contextmanager
    def another(self, part: Part, trap: Trap | None = None) -> Iterator[Victim]:
        """Who comes before the victim, and dies."""
        folder = self.folder / f"before-{len(list(self.folder.iterdir()))}"
        folder.mkdir()
        began = victim.start(part, self.url, folder, trap)
        try:
            yield began
        finally:
            began.kill()

    async def until(self, fact: Fact, what: str) -> None:
        """Raises VictimDied instead when it did."""

        async def seen() -> bool:
            found = fact()
            is_so = bool(await found if isinstance(found, Coroutine) else found)
            if not is_so and self.victim is not None and self.victim.is_dead:
                raise VictimDied
            return is_so

        await until(seen, what, deadline=TIMEOUT)


@dataclass
class People:
    """A producer, and a probe that sees everything."""

    stage: Stage
    jobs: TaskJobs
    raw: Probe

    async def create(
        self,
        queue: Queue[Task, R],
        do: str = "answer",
        *,
        key: str = "acme",
        seconds: float = 0.0,
        deadline: float | None = None,
        delay: float | None = None,
    ) -> JobRef[R]:
        task = Task(do=do, key=key, seconds=seconds)
        ref = await queue.create(task, deadline=deadline, delay=delay)
        Notebook(self.stage.folder / "promised").note(ref.id)
        return ref

    async def delay(self, queue: Queue[Task, R], seconds: float, *, key: str = "acme") -> JobRef[R]:
        ref = await queue.create(Task(key=key), delay=seconds)
        Notebook(self.stage.folder / "promised").note(ref.id)
        return ref

    async def ring(self, alarm: AlarmAddress, headers: dict[str, str] | None = None) -> None:
        """The alarm comes now, as a server that publishes it twice would do."""
        await self.raw.connection.publish(subjects.due(alarm), headers=headers)

    async def set_old_alarm(self, job: JobAddress, moment: datetime) -> None:
        """An alarm that a process set some minutes ago, before it died."""
        address = subjects.alarm_of_job(job)
        headers = {
            h.ALARM_SET_AT: (utc_now() - timedelta(minutes=5)).isoformat(),
            h.SCHEDULE: f"@at {moment.isoformat()}",
            h.SCHEDULE_TARGET: subjects.due(address),
        }
        await self.raw.connection.publish(subjects.alarm(address), headers=headers)

    async def until_over(self, *refs: JobRef[Any]) -> None:
        for ref in refs:

            async def is_over(ref: JobRef[Any] = ref) -> bool:
                head = await self.raw.events.head(ref.address)
                return head is None or head.status.is_over

            await self.stage.until(is_over, f"{ref} is over")

    def key(self, queue: Queue[Task, Report], key: str = "acme") -> KeyView:
        of_the_yard = key_view(self.raw, queue, key).empty
        address = KeyAddress("mill", queue.type.name, of_the_yard.address.hash)
        return KeyView(self.raw, replace(of_the_yard, address=address))

    async def reserve(
        self, queue: Queue[Task, Report], *job_ids: str, key: str = "acme", age: float = 0.0
    ) -> KeyView:
        """Places for jobs that never came to be."""
        made = self.key(queue, key)
        at = utc_now() - timedelta(seconds=age)
        entries = tuple(waiting(job_id, created_at=at) for job_id in job_ids)
        await made.change(lambda state: replace(state, queued=entries))
        return made

    async def until_redelivered(self, queue: Queue[Task, Report]) -> None:
        async def redelivered() -> bool:
            return bool(await self._count(queue, "num_redelivered"))

        await self.stage.until(redelivered, f"{queue.type.name} delivers once more")

    async def until_all_are_out(self, queue: Queue[Task, Report]) -> None:
        """The workers have them: they run, or wait for their key."""

        async def are_out() -> bool:
            return not await self._count(queue, "num_pending")

        await self.stage.until(are_out, f"all of {queue.type.name} are delivered")

    async def _count(self, queue: Queue[Task, Report], what: str) -> int:
        name = f"CONSUMER.INFO.{WORK}.mill-{queue.type.name}"
        return int((await api.request(self.raw.connection, name))[what])

    async def until_started(self, *refs: JobRef[Any]) -> None:
        for ref in refs:
            await self.until_kind(ref, EventKind.STARTED)

    async def lose_a_worker(self, *refs: JobRef[Any]) -> None:
        """It dies with these in its hands, which it would never have finished."""
        with self.stage.another(parts.hold) as lost:
            await self.until_started(*refs)
            lost.kill()

    async def until_kind(self, ref: JobRef[Any], kind: EventKind) -> None:
        async def there() -> bool:
            return kind in await self.raw.kinds(ref)

        await self.stage.until(there, f"{ref} has a {kind} event")


@asynccontextmanager
async def people(stage: Stage) -> AsyncIterator[People]:
    service = Service(MILL)
    async with (
        service.connect(stage.url, workers=False, connect_timeout=DEADLINE),
        probe(stage.url) as raw,
    ):
        yield People(stage, service.jobs, raw)


@asynccontextmanager
async def stage(
    folder: Path, trap: Trap | None = None, version: str = NEWEST
) -> AsyncIterator[Stage]:
    await asyncio.to_thread(folder.mkdir, parents=True, exist_ok=True)
    server = await asyncio.to_thread(start_version, version)
    made = Stage(server.url, folder, trap)
    try:
        yield made
    finally:
        if made.victim is not None:
            made.victim.kill()
        await asyncio.to_thread(server.stop)
