"""A service with schedules, its records and alarms, and the jobs that its ticks made."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, cast

from tests.chaos.evidence import entries_in, whole_log
from tests.support.example_service import (
    Report,
    Task,
    TaskJobs,
    TaskWorker,
    example_jobs,
    task_worker,
)
from tests.support.facts import until
from tests.support.lab import Probe, probe
from trellis_jobs import Cron, Every, Service, Workers
from trellis_jobs.contract.topology import DUE_CONSUMER, alarms_stream
from trellis_jobs.environment import utc_now
from trellis_jobs.errors import RequestRefused
from trellis_jobs.jetstream.alarms.alarms import Alarms
from trellis_jobs.jetstream.client import api
from trellis_jobs.jetstream.schedules.records import ScheduleRecords, StoredSchedule
from trellis_jobs.jetstream.schedules.schedules import alarm_of
from trellis_jobs.model import subjects
from trellis_jobs.model.events import Created
from trellis_jobs.model.schedules.address import ScheduleAddress
from trellis_jobs.model.schedules.record import Origin, Run, ScheduleRecord
from trellis_jobs.model.values import replace
from trellis_jobs.wire import headers as h

if TYPE_CHECKING:
    from trellis_jobs.contract.declaration import JobOptions

SERVICE: Final = "clock"
SECOND: Final = timedelta(seconds=1)
MINUTE: Final = timedelta(minutes=1)
ALARMS: Final = alarms_stream(SERVICE)
TASK: Final = Task(text="tick")


def clock(schedules: Mapping[str, Cron | Every] | None = None, /, **options: Any) -> type[TaskJobs]:
    """A contract with a queue `tick` that has these schedules and options, and a queue `other`."""
    tick = {"ack_wait": 5, "backoff": [0.1], "schedules": schedules or {}, **options}
    return example_jobs(SERVICE, Task, Report, tick=cast("JobOptions", tick), other={})


@asynccontextmanager
async def clock_worker(
    url: str, jobs: type[TaskJobs], queues: Sequence[str] | None = None
) -> AsyncIterator[TaskWorker]:
    made = task_worker(Service(jobs, grace=0.5))
    async with made.service.connect(url, workers=Workers(queues=queues)):
        yield made
    made.go.set()


@asynccontextmanager
async def clock_producer(url: str, jobs: type[TaskJobs]) -> AsyncIterator[TaskJobs]:
    service = Service(jobs)
    async with service.connect(url, workers=False):
        yield service.jobs


def address(name: str) -> ScheduleAddress:
    return ScheduleAddress(SERVICE, "tick", name)


@dataclass
class Clockwork:
    """Raw access to the log, to records and to alarms of the service."""

    raw: Probe
    records: ScheduleRecords

    async def ticks(self, name: str | None = None) -> list[datetime]:
        """The ticks that have jobs in the log, in order; a tick with two jobs is there twice."""
        found = [job.run_at for job in await self.jobs(name)]
        return sorted(tick for tick in found if tick is not None)

    async def jobs(self, name: str | None = None) -> list[Created]:
        """The jobs that schedules created, in the order of the log."""
        entries = entries_in(await whole_log(self.raw.connection))
        events = [entry.event for entry in entries if isinstance(entry.event, Created)]
        return [job for job in events if job.schedule and name in (None, job.schedule)]

    async def until_ticks(self, name: str, count: int, deadline: float = 20) -> list[datetime]:
        """The ticks, as soon as this many have jobs."""

        async def there() -> list[datetime] | None:
            found = await self.ticks(name)
            return found if len(found) >= count else None

        return await until(there, f"{name} has {count} jobs", deadline=deadline)

    async def stored(self, name: str) -> StoredSchedule:
        return await self.records.find(address(name))

    async def record(self, name: str) -> ScheduleRecord:
        found = (await self.stored(name)).record
        assert found is not None
        return found

    async def until_record(
        self, name: str, fact: Callable[[ScheduleRecord], object]
    ) -> ScheduleRecord:
        async def there() -> ScheduleRecord | None:
            found = (await self.stored(name)).record
            return found if found is not None and fact(found) else None

        return await until(there, f"the record of {name}")

    async def until_run(self, name: str, fact: Callable[[Run], object]) -> Run:
        record = await self.until_record(name, lambda record: any(map(fact, record.runs)))
        return next(run for run in record.runs if fact(run))

    async def due_alarms(self, name: str = "*") -> int:
        """Alarms of schedules that have come, and that no worker process has acknowledged."""
        return await self._messages(f"trellis.due.{SERVICE}.schedule.tick.{name}")

    async def set_alarms(self, name: str = "*") -> int:
        return await self._messages(f"trellis.alarm.{SERVICE}.schedule.tick.{name}")

    async def ring(self, name: str) -> None:
        """Publishes the alarm of a schedule, as the server does when its time has come."""
        alarms = Alarms(self.raw.connection, self.raw.features, utc_now)
        await alarms.ring(alarm_of(address(name)))

    async def ring_late(self, name: str, age: timedelta) -> None:
        """An alarm that was set so long ago, and due then."""
        at = (utc_now() - age).isoformat()
        headers = {h.ALARM_SET_AT: at, h.ALARM_AT: at}
        subject = subjects.due(alarm_of(address(name)))
        await self.raw.connection.request(subject, b"", headers=headers)

    async def redeliveries(self) -> int:
        """Alarms that worker processes have put back."""
        info = await self._consumer()
        return int(info["num_redelivered"]) if info else 0

    async def _consumer(self) -> dict[str, Any]:
        """Empty until the first worker has made the consumer."""
        with suppress(RequestRefused):
            call = f"CONSUMER.INFO.{ALARMS}.{DUE_CONSUMER}"
            return await api.request(self.raw.connection, call)
        return {}

    async def deliveries(self) -> int:
        """How often worker processes have got an alarm."""
        info = await self._consumer()
        return int(info["delivered"]["consumer_seq"]) if info else 0

    async def purge_alarms(self) -> None:
        await api.request(self.raw.connection, f"STREAM.PURGE.{ALARMS}")

    async def write_bytes(self, name: str, data: bytes) -> None:
        """As a foreign process would, whatever the record is now."""
        await self.raw.connection.publish(subjects.schedule(SERVICE, "tick", name), data)

        async def there() -> bool:
            found = await api.newest(
                self.raw.connection, "JOBS_CONTROL", subjects.schedule(SERVICE, "tick", name)
            )
            return found.data == data

        await until(there, "the record is written")

    async def leave_record(
        self, jobs: type[TaskJobs], name: str, *, decided_until: datetime, **changes: Any
    ) -> ScheduleRecord:
        """The record of a declared schedule as an outage leaves it."""
        made = ScheduleRecord(
            address=address(name),
            definition=jobs.contract.queues["tick"].schedules[name],
            origin=Origin.CONTRACT,
            decided_until=decided_until,
            created_at=decided_until,
            updated_at=decided_until,
        )
        left = replace(made, **changes)
        revision = (await self.stored(name)).revision
        assert isinstance(await self.records.write(left, revision), int)
        return left

    async def _messages(self, subject: str) -> int:
        info = await api.request(
            self.raw.connection, f"STREAM.INFO.{ALARMS}", {"subjects_filter": subject}
        )
        return sum((info["state"].get("subjects") or {}).values())


@asynccontextmanager
async def clockwork(url: str) -> AsyncIterator[Clockwork]:
    async with probe(url) as raw:
        yield Clockwork(raw, ScheduleRecords(raw.connection, supports_ttl=raw.features.message_ttl))


def assert_one_job_per_tick(ticks: Sequence[datetime], every: timedelta = SECOND) -> None:
    """No tick has two jobs, and none between the first and the last has no job."""
    twice = {tick: count for tick, count in Counter(ticks).items() if count > 1}
    assert twice == {}
    missing = sorted(set(expected(ticks[0], ticks[-1], every)) - set(ticks))
    assert missing == []


def expected(first: datetime, last: datetime, every: timedelta = SECOND) -> list[datetime]:
    return [first + n * every for n in range((last - first) // every + 1)]


def last_minute() -> datetime:
    """The newest full minute."""
    return datetime.fromtimestamp(utc_now().timestamp() // 60 * 60, UTC)
