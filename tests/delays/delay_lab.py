"""A service whose jobs are delayed, and what the log and the alarms say about them."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

import orjson

from tests.keys.work_lab import by_key
from tests.support.example_service import (
    Report,
    Task,
    TaskJobs,
    TaskWorker,
    example_jobs,
    task_worker,
)
from tests.support.facts import DEADLINE, until
from tests.support.lab import Probe, probe
from trellis_jobs import JobRef, QueueDepth, Service, Workers
from trellis_jobs.contract.declaration import JobOptions
from trellis_jobs.contract.topology import DUE_CONSUMER, LOG, alarms_stream
from trellis_jobs.environment import utc_now
from trellis_jobs.errors import JobsError
from trellis_jobs.jetstream.client import api
from trellis_jobs.jetstream.client.connect_options import ConnectOptions
from trellis_jobs.jetstream.client.connection import ConnectionLost
from trellis_jobs.jetstream.client.pull_consumer import EphemeralConsumer, open_ephemeral_consumer
from trellis_jobs.jetstream.client.stored_message import moment_of
from trellis_jobs.jetstream.log.feed import log_message
from trellis_jobs.jetstream.log.history import Histories, entries_in
from trellis_jobs.model import subjects
from trellis_jobs.model.events import Described, Event, EventKind
from trellis_jobs.model.identity import JobAddress
from trellis_jobs.wire import headers as h

SERVICE: Final = "later"
ALARMS: Final = alarms_stream(SERVICE)
_BRISK: Final[JobOptions] = {
    "concurrency": 10,
    "ack_wait": 1,
    "backoff": [0.1],
    "max_deliver": 3,
}
_KEYED: Final[JobOptions] = {**_BRISK, "key": by_key()}
LATER: Final = example_jobs(
    SERVICE,
    Task,
    Report,
    work=_BRISK,
    # A job of this queue that fails waits for an operator.
    patient={**_BRISK, "backoff": [3600]},
    brief={**_BRISK, "deadline": 3600},
    shared={**_BRISK, "shared": True},
    # A key admits one running job and one that waits; the queues differ in what becomes of more.
    waiting={**_KEYED, "queue": QueueDepth(1)},
    rejecting={**_KEYED, "queue": QueueDepth(1, "reject", "when-full")},
    merging={**_KEYED, "queue": QueueDepth(1, "coalesce", "when-full")},
    newest={**_KEYED, "queue": QueueDepth(1, "replace-oldest", "when-full")},
    stubborn={**_KEYED, "backoff": [3600], "queue": QueueDepth(1)},
)
KEYED: Final = ("waiting", "rejecting", "merging", "newest")
SOON: Final = 1.5
A_DAY: Final = 86_400.0


@dataclass(frozen=True)
class Stored:
    """An event, and the time of the server when it stored it."""

    event: Event
    at: datetime

    @property
    def kind(self) -> EventKind:
        return self.event.kind


class Ledger:
    """The log and the alarms, past all of the code that is tested."""

    def __init__(self, raw: Probe) -> None:
        self.raw = raw

    async def stored(self, ref: JobRef[Any]) -> list[Stored]:
        messages = await Histories(self.raw.connection).messages(ref.address, at_least=ref.since)
        return [
            Stored(entry.event, moment_of(message.stored_ns))
            for message in messages
            for entry in entries_in([message])
        ]

    async def everything(self) -> dict[str, list[Stored]]:
        """The events of all jobs of the service, by their ids."""

        async def whole() -> dict[str, list[Stored]] | None:
            with suppress(ConnectionLost, JobsError):  # while a stream elects its leader
                return await self._everything()
            return None

        return await until(whole, "the whole log is read")

    async def _everything(self) -> dict[str, list[Stored]]:
        found: dict[str, list[Stored]] = {}
        whole = EphemeralConsumer(
            stream=LOG,
            name_prefix="ledger",
            subject=subjects.of_service(SERVICE),
            idle_timeout=seconds(10),
            delete_after_use=True,
        )
        async with open_ephemeral_consumer(self.raw.connection, whole) as pull:
            messages = [delivered async for delivered in pull.drain()]
            assert len(messages) == pull.pending
            for delivered in messages:
                message = log_message(*delivered)
                for entry in entries_in([message]):
                    stored = Stored(entry.event, moment_of(message.stored_ns))
                    found.setdefault(entry.event.job.job_id, []).append(stored)
        return found

    async def until_all_ran(
        self, refs: Iterable[JobRef[Any]], *, deadline: float = DEADLINE
    ) -> None:
        """Waits for all of these jobs. Each ran once, was released once, and not early."""
        ids = [ref.id for ref in refs]

        async def completed() -> bool:
            try:
                return await self.count(EventKind.COMPLETED) >= len(ids)
            except JobsError:  # while a stream elects its leader
                return False

        await until(completed, f"{len(ids)} jobs have completed", deadline=deadline)
        found = await self.everything()
        assert set(found) >= set(ids)
        for job_id in ids:
            check_never_early(found[job_id])
            kinds = Counter(stored.kind.value for stored in found[job_id])
            assert kinds["created"] == 1, (job_id, kinds)
            assert kinds["completed"] == 1, (job_id, kinds)

    async def kinds(self, ref: JobRef[Any]) -> list[str]:
        return [stored.kind.value for stored in await self.stored(ref)]

    async def count(self, kind: EventKind) -> int:
        """How many events of a kind the log has, of all jobs."""
        filter_ = subjects.matching(SERVICE, None, kind)
        info = await api.request(
            self.raw.connection, "STREAM.INFO.JOBS", {"subjects_filter": filter_}
        )
        return sum((info["state"].get("subjects") or {}).values())

    async def until_kind(
        self, ref: JobRef[Any], kind: EventKind, *, deadline: float = DEADLINE
    ) -> list[Stored]:
        async def there() -> list[Stored] | None:
            stored = await self.stored(ref)
            return stored if any(each.kind is kind for each in stored) else None

        return await until(there, f"{ref} has a {kind.value} event", deadline=deadline)

    async def until_over(self, refs: Iterable[JobRef[Any]], *, deadline: float = DEADLINE) -> None:
        for ref in refs:

            async def over(ref: JobRef[Any] = ref) -> bool:
                return (await ref.get()).state.value in {"completed", "failed", "dead"}

            await until(over, f"{ref} is over", deadline=deadline)

    async def ran_once_and_not_early(self, *refs: JobRef[Any], tries: int = 1) -> None:
        """The promise of this folder, by the times and the order of the log."""
        for ref in refs:
            check_never_early(await self.stored(ref))
            kinds = await self.kinds(ref)
            assert kinds.count("completed") == 1, (ref, kinds)
            assert kinds.count("started") == tries, (ref, kinds)

    async def alarms(self) -> int:
        """The messages in the stream of alarms: those that wait, and those that have come."""
        info = await api.request(self.raw.connection, f"STREAM.INFO.{ALARMS}")
        return int(info["state"]["messages"])

    async def until_no_alarms(self, *, deadline: float = DEADLINE) -> None:
        async def none() -> bool:
            return await self.alarms() == 0

        await until(none, "no alarm is left", deadline=deadline)

    async def due_consumer(self) -> dict[str, Any]:
        return await api.request(self.raw.connection, f"CONSUMER.INFO.{ALARMS}.{DUE_CONSUMER}")

    async def until_out(self, count: int) -> None:
        """Waits until worker processes have this many alarms, which they hold or handle."""

        async def there() -> bool:
            info = await self.due_consumer()
            return int(info["num_pending"]) == 0 and int(info["num_ack_pending"]) == count

        await until(there, f"{count} alarms are out")

    async def until_received(self) -> None:
        """Waits until a worker process asks for alarms."""

        async def asks() -> bool:
            call = f"CONSUMER.INFO.{ALARMS}.{DUE_CONSUMER}"
            info = await api.find(self.raw.connection, call)
            return info is not None and int(info["num_waiting"]) > 0

        await until(asks, "a worker process asks for alarms")

    async def now(self) -> datetime:
        """The time of the server."""
        info = await api.request(self.raw.connection, "STREAM.INFO.JOBS")
        return datetime.fromisoformat(str(info["ts"]))

    async def until_time(self, moment: datetime) -> None:
        async def reached() -> bool:
            return await self.now() > moment

        await until(reached, f"it is {moment}")

    async def repeat_alarm(self, job: JobAddress) -> None:
        """An alarm of the job comes now, as a server that publishes it twice would do."""
        await self.raw.connection.publish(subjects.due(subjects.alarm_of_job(job)))

    async def set_old_alarm(self, job: JobAddress, *, delay: float) -> None:
        """An alarm that a process set ten minutes ago, and that comes after the delay."""
        address = subjects.alarm_of_job(job)
        moment, set_at = utc_now() + seconds(delay), utc_now() - timedelta(minutes=10)
        headers = {
            h.ALARM_SET_AT: set_at.isoformat(),
            h.SCHEDULE: f"@at {moment.isoformat()}",
            h.SCHEDULE_TARGET: subjects.due(address),
        }
        await self.publish(subjects.alarm(address), headers)

    async def publish(self, subject: str, headers: dict[str, str]) -> None:
        """Publishes a message and requires that it is stored."""
        answer = await self.raw.connection.request(subject, headers=headers)
        assert "error" not in orjson.loads(answer.data), answer.data

    async def delete_alarms(self) -> None:
        await api.request(self.raw.connection, f"STREAM.DELETE.{ALARMS}")


def check_never_early(stored: Iterable[Stored]) -> None:
    """No `created` and no `started` is stored before the time that the log has for the job.

    Between a `scheduled` event and the next `created`, nothing starts.
    """
    run_at: datetime | None = None
    is_released = True
    for each in stored:
        match each.kind:
            case EventKind.SCHEDULED:
                assert isinstance(each.event, Described)
                run_at, is_released = each.event.run_at, False
            case EventKind.CREATED:
                assert run_at is None or each.at >= run_at, (each, run_at - each.at)
                is_released = True
            case EventKind.STARTED:
                assert is_released, each
            case _:
                pass


@asynccontextmanager
async def ledger(url: str | ConnectOptions) -> AsyncIterator[Ledger]:
    async with probe(url) as raw:
        yield Ledger(raw)


@asynccontextmanager
async def worker(
    url: str | ConnectOptions, *queues: str, grace: float = 5.0, replicas: int | None = None
) -> AsyncIterator[TaskWorker]:
    made = task_worker(Service(LATER, grace=grace))
    workers = Workers(queues=queues or None)
    async with made.service.connect(url, workers=workers, replicas=replicas):
        yield made
        made.go.set()


@asynccontextmanager
async def producer(url: str | ConnectOptions) -> AsyncIterator[TaskJobs]:
    service = Service(LATER)
    async with service.connect(url, workers=False):
        yield service.jobs


async def at_the_same_time(*actions: Any) -> list[Any]:
    """The results or exceptions of coroutines that run at once."""
    return await asyncio.gather(*actions, return_exceptions=True)


def seconds(number: float) -> timedelta:
    return timedelta(seconds=number)
