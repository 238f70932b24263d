"""What processes do with schedules: declare them, make and change them, and fire them."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final

from tests.chaos.evidence import entries_in
from tests.chaos.notebook import Notebook, notes_in
from tests.chaos.violation import Violation
from tests.crash_points.mill import MILL, Miller
from tests.support.example_service import Report, Task, example_jobs
from tests.support.facts import DEADLINE, until
from tests.support.lab import Probe
from trellis_jobs import Cron, Every, Service
from trellis_jobs.environment import utc_now
from trellis_jobs.errors import ScheduleNotFound
from trellis_jobs.jetstream.log.feed import LogMessage
from trellis_jobs.jetstream.schedules.records import ScheduleRecords
from trellis_jobs.model.events import Created
from trellis_jobs.model.schedules.firing import next_fire_time
from trellis_jobs.model.schedules.record import ScheduleRecord

SECOND: Final = timedelta(seconds=1)
# A tick that is further away does not come during a run.
FAR: Final = timedelta(seconds=30)
_PROMISED: Final = "promised-ticks"

DIALS: Final = example_jobs(
    "mill",
    Task,
    Report,
    plain={
        "schedules": {
            "yearly": Cron("@yearly", payload=Task()),
            "soon": Every(1, payload=Task(), end="2020-01-01T00:00Z"),
        }
    },
)


@dataclass(frozen=True)
class Ticks:
    """A schedule with a tick every second from `start` to `end`, each of which has a job."""

    name: str
    start: datetime
    end: datetime

    @property
    def schedule(self) -> Every:
        return Every(1, payload=Task(), start=self.start, end=self.end, catch_up="all")

    def promise(self, folder: Path) -> None:
        Notebook(folder / _PROMISED).note(self.name, self.start.isoformat(), self.end.isoformat())

    def missing(self, made: set[tuple[str, datetime]]) -> list[datetime]:
        count = (self.end - self.start) // SECOND + 1
        every = [self.start + n * SECOND for n in range(count)]
        return [tick for tick in every if (self.name, tick) not in made]


def next_ticks(name: str, count: int = 3, *, after: float = 3) -> Ticks:
    start = utc_now().replace(microsecond=0) + timedelta(seconds=after)
    return Ticks(name, start, start + (count - 1) * SECOND)


def promised(folder: Path) -> list[Ticks]:
    return [
        Ticks(name, datetime.fromisoformat(start), datetime.fromisoformat(end))
        for path in folder.rglob(_PROMISED)
        for name, start, end in notes_in(path)
    ]


async def declare(url: str, folder: Path) -> None:
    """Works with a contract that declares schedules, and ends when they are there."""
    service = Service(DIALS, grace=0.2)
    service.jobs.plain.handle(Miller(Notebook(folder / "notes"), calm=True).handle)
    schedules, declared = service.jobs.plain.schedules, DIALS.contract.queues["plain"].schedules

    async def are_there() -> bool:
        return {each.name for each in await schedules.list()} >= set(declared)

    async with service.connect(url, connect_timeout=DEADLINE):
        await until(are_there, "the schedules are declared", deadline=300)
    (folder / "ready").touch()


async def make_schedules(url: str, folder: Path) -> None:
    """Others work: it makes schedules, and changes those that it or another process has made."""
    service = Service(MILL)
    async with service.connect(url, workers=False, connect_timeout=DEADLINE):
        schedules = service.jobs.plain.schedules
        made = next_ticks("made")
        await schedules.put(made.name, made.schedule)
        made.promise(folder)
        await schedules.put("changed", Every(3600, payload=Task()))
        changed = next_ticks("changed")
        await schedules.put(changed.name, changed.schedule)
        await schedules.pause("changed")
        await schedules.resume("changed")
        changed.promise(folder)
        ref = await schedules.trigger("changed")
        Notebook(folder / "promised").note(ref.id)
        await schedules.put("deleted", Every(3600, payload=Task()))
        await schedules.delete("deleted")
        with suppress(ScheduleNotFound):
            await schedules.delete("deleted")
        await schedules.list()
    (folder / "ready").touch()


async def records(raw: Probe) -> list[ScheduleRecord]:
    found = ScheduleRecords(raw.connection, supports_ttl=raw.features.message_ttl)
    return await found.all("mill")


def is_busy(record: ScheduleRecord) -> bool:
    """Whether it has jobs to create, or a tick soon."""
    next_at = next_fire_time(record)
    return bool(record.unfinished) or (next_at is not None and next_at < utc_now() + FAR)


def check_ticks(messages: list[LogMessage], folder: Path) -> list[Violation]:
    """No tick has two jobs, and none that was promised has no job."""
    made = set[tuple[str, datetime]]()
    wrong = []
    for entry in entries_in(messages):
        event = entry.event
        if isinstance(event, Created) and event.schedule and event.run_at is not None:
            tick = (event.schedule, event.run_at)
            if tick in made:
                wrong.append(Violation("a tick has one job", f"{tick} has two"))
            made.add(tick)
    for ticks in promised(folder):
        wrong += [
            Violation("a tick has one job", f"{ticks.name} has none for {tick}")
            for tick in ticks.missing(made)
        ]
    return wrong
