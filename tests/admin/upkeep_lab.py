"""A ward of jobs that need looking after, and daemons that look often.

Run as a program it is a worker of one queue: one that works, or one that takes deliveries and says
nothing, to be killed.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import orjson

from jobs_admin.config import AdminConfig
from jobs_admin.daemon import Daemon, serving
from tests.admin.admin_lab import until_projected
from tests.support.example_service import (
    Report,
    Task,
    TaskJobs,
    TaskWorker,
    attributes,
    example_jobs,
)
from tests.support.facts import until
from tests.support.fork_server import ForkedProcess, fork
from tests.support.lab import Probe
from trellis_jobs import (
    ActiveJob,
    JobRef,
    KeyConcurrency,
    Queue,
    QueueDepth,
    Service,
    Workers,
)
from trellis_jobs.contract.topology import KEYS, WORK
from trellis_jobs.environment import Environment, monotonic, utc_now
from trellis_jobs.jetstream.client import api
from trellis_jobs.jetstream.client.connection import Connection
from trellis_jobs.jetstream.client.rpc import rpc_call
from trellis_jobs.jetstream.work.delivery import Delivery
from trellis_jobs.jetstream.work.puller import WorkPuller
from trellis_jobs.model import subjects
from trellis_jobs.model.events import EventKind
from trellis_jobs.model.keys.state import KeyAddress, KeyState, Slot
from trellis_jobs.model.states import JobState
from trellis_jobs.wire import keys as wire

SERVICE: Final = "ward"
OFTEN: Final = {
    "janitor_interval": timedelta(seconds=0.1),
    "reconcile_interval": timedelta(seconds=0.2),
    "reconcile_grace": timedelta(seconds=0.5),
}


def _by_key(stale_policy: str = "fail-stale") -> KeyConcurrency:
    return KeyConcurrency(["ward", "/key"], stale_policy=stale_policy)


WARD: Final = example_jobs(
    SERVICE,
    Task,
    Report,
    plain={"concurrency": 10, "ack_wait": 1, "backoff": [1.0], "max_deliver": 3},
    single={"concurrency": 10, "ack_wait": 1, "max_deliver": 1},
    brief={"deadline": 1.0, "backoff": [60]},
    once={"ack_wait": 1, "delivery_limit": 1},
    # Its lease is so long that a worker on a busy machine renews it in time.
    once_long={"ack_wait": 4, "delivery_limit": 1},
    twice={"ack_wait": 1, "delivery_limit": 2},
    patient={"concurrency": 50, "ack_wait": 1, "delivery_limit": 2, "backoff": [600]},
    no_letters={"ack_wait": 1, "delivery_limit": 1, "dlq": False},
    no_letters_single={"ack_wait": 1, "max_deliver": 1, "dlq": False},
    keyed={"ack_wait": 1, "key": _by_key(), "queue": QueueDepth(max_queued_per_key=1)},
    keyed_once={"ack_wait": 1, "delivery_limit": 1, "key": _by_key()},
    blocked={"ack_wait": 1, "key": _by_key("block"), "queue": QueueDepth(max_queued_per_key=5)},
)


def clock(ahead: timedelta) -> Environment:
    """Of a machine whose time is not that of the others."""
    return Environment(now=lambda: utc_now() + ahead)


def service_at(ahead: timedelta, grace: float = 0.0) -> Service[TaskJobs]:
    made = Service(WARD, grace=grace)
    made._runtime.environment = clock(ahead)
    return made


@asynccontextmanager
async def worker(
    url: str, *queues: str, grace: float = 0.0, ahead: timedelta = timedelta(0)
) -> AsyncIterator[TaskWorker]:
    """Of the named queues, by attribute; at its end running handlers are interrupted."""
    made = TaskWorker(service_at(ahead, grace))
    handled = queues or attributes(WARD)
    for name in handled:
        getattr(made.jobs, name).handle(made.handle)
    named = [name.replace("_", "-") for name in handled]
    async with made.service.connect(url, workers=Workers(queues=named)):
        yield made


@asynccontextmanager
async def producer(url: str, *, ahead: timedelta = timedelta(0)) -> AsyncIterator[TaskJobs]:
    service = service_at(ahead)
    async with service.connect(url, workers=False):
        yield service.jobs


# Daemons


@asynccontextmanager
async def looking_after(
    url: str, path: Path, *, ahead: timedelta = timedelta(0), **changes: Any
) -> AsyncIterator[Daemon]:
    """A daemon that has caught up with the log."""
    config = AdminConfig(nats=url, path=path, **{**OFTEN, **changes})
    async with serving(config, clock(ahead)) as daemon:
        info = await api.request(daemon.connection, "STREAM.INFO.JOBS")
        await until_projected(daemon, int(info["state"]["last_seq"]))
        yield daemon


async def until_swept(daemon: Daemon, *names: str, times: int = 2) -> None:
    """Waits until these loops of the daemon have run this many more times."""
    for _ in range(times):
        begun = {name: daemon.loops.all[name].last_success for name in names}

        def all_turned(begun: dict[str, Any] = begun) -> bool:
            return all(daemon.loops.all[name].last_success != at for name, at in begun.items())

        await until(all_turned, f"{names} swept")


async def ask(raw: Probe, method: str, body: dict[str, Any]) -> dict[str, Any]:
    """The answer, which is a refusal or not."""
    reply = await rpc_call(raw.connection, subjects.rpc(method), orjson.dumps(body), timeout=20)
    answer = orjson.loads(reply.data)
    assert isinstance(answer, dict)
    return answer


# Facts


async def until_kind(raw: Probe, ref: JobRef[Any], kind: EventKind) -> list[EventKind]:
    async def there() -> list[EventKind] | None:
        kinds = await raw.kinds(ref)
        return kinds if kind in kinds else None

    return await until(there, f"{ref} has a {kind} event", deadline=40)


async def until_sourced(raw: Probe, count: int) -> None:
    async def there() -> bool:
        return await raw.work_messages() == count

    await until(there, f"the work queue holds {count}")


async def until_state(ref: JobRef[Any], *states: JobState) -> None:
    async def there() -> bool:
        return (await ref.get()).state in states

    await until(there, f"{ref} is {states}", deadline=40)


async def purge(raw: Probe, stream: str, filtered: str | None = None) -> None:
    body = {"filter": filtered} if filtered else {}
    await api.request(raw.connection, f"STREAM.PURGE.{stream}", body)


async def forget_heartbeats(raw: Probe) -> None:
    """As if time had passed: heartbeats remove themselves after half a minute."""
    await purge(raw, "JOBS", "trellis.jobs.workers.>")


async def consumer(raw: Probe, queue: str) -> dict[str, Any]:
    return await api.request(raw.connection, f"CONSUMER.INFO.{WORK}.{SERVICE}-{queue}")


@dataclass(frozen=True)
class KeyView:
    """One key, read and written past all of our code."""

    raw: Probe
    empty: KeyState

    async def read(self) -> KeyState:
        subject = subjects.key_state(self.empty.address)
        answer = await self.raw.connection.request(f"$JS.API.DIRECT.GET.{KEYS}.{subject}")
        if (answer.headers or {}).get("Status") == "404":
            return self.empty
        found = wire.decode(answer.data, expected=self.empty.address)
        assert isinstance(found, KeyState)
        return found

    async def write(self, state: KeyState) -> None:
        subject = subjects.key_state(self.empty.address)
        written = await self.raw.connection.request(subject, wire.encode(state))
        assert "error" not in orjson.loads(written.data)

    async def until_held_by(self, ref: JobRef[Any]) -> Slot:
        async def held() -> Slot | None:
            return (await self.read()).slot_of(ref.id)

        return await until(held, f"{ref} holds the key")

    async def until_empty(self) -> KeyState:
        async def empty() -> KeyState | None:
            state = await self.read()
            return None if state.active or state.queued else state

        return await until(empty, "nothing is left in the key")


def key_view(raw: Probe, queue: Queue[Task, Report], key: str = "acme") -> KeyView:
    key_policy = queue.type.key_policy
    assert key_policy is not None
    resolved = key_policy.template.resolve({"key": key})
    address = KeyAddress(SERVICE, queue.type.name, resolved.hash)
    return KeyView(
        raw,
        KeyState(
            address=address,
            display=resolved.display,
            max_active=key_policy.max_active,
            max_queued=key_policy.max_queued,
        ),
    )


# A worker in a separate process


@dataclass
class MaintainedProcess:
    process: ForkedProcess
    folder: Path

    @property
    def begun(self) -> list[str]:
        """The jobs that it took, or whose handlers began."""
        written = self.folder / "begun"
        return written.read_text().split() if written.exists() else []

    async def until_begun(self, *refs: JobRef[Any]) -> None:
        wanted = {ref.id for ref in refs}
        await until(lambda: wanted <= set(self.begun), f"{refs} began")

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


@contextmanager
def ward_process(
    url: str, folder: Path, queue: str, *, says_nothing: bool = False
) -> Iterator[MaintainedProcess]:
    """Its handlers never end. With `says_nothing` it takes deliveries and appends no event."""
    folder.mkdir(parents=True, exist_ok=True)
    arguments = (url, str(folder), queue, "mute" if says_nothing else "works")
    with (folder / "output").open("wb") as output:
        process = fork("tests.admin.upkeep_lab", *arguments, stdout=output)
    try:
        yield MaintainedProcess(process, folder)
    finally:
        process.kill()
        process.wait()


async def _work(url: str, begun: Path, queue: str) -> None:
    service = Service(WARD)

    async def hang(active: ActiveJob[Task]) -> Report:
        with begun.open("a") as written:
            written.write(f"{active.id}\n")
        await asyncio.Event().wait()
        return Report(tries=active.tries)

    getattr(service.jobs, queue).handle(hang)
    async with service.connect(url):
        await asyncio.Event().wait()


async def _take(url: str, begun: Path, queue: str) -> None:
    connection = await Connection.open(url, name="mute")

    def take(delivery: Delivery | None) -> None:
        if delivery is not None:
            with begun.open("a") as written:
                written.write(f"{delivery.job.job_id}\n")

    work = WorkPuller(connection, SERVICE, getattr(WARD, queue), take, monotonic)
    await work.open()
    await work.subscribe()
    while True:
        work.request(10)
        await asyncio.sleep(1)


if __name__ == "__main__":
    _, to, where, which, how = sys.argv
    main = _take if how == "mute" else _work
    asyncio.run(main(to, Path(where) / "begun", which))
