"""Keyed queues for tests: workers in this or in other processes, and access to keys.

Run as a program it is a worker whose handlers record when they start and end, and create jobs.
"""

from __future__ import annotations

import asyncio
import dataclasses
import signal
import sys
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import orjson

from tests.support.example_service import (
    Report,
    Task,
    TaskJobs,
    TaskWorker,
    example_jobs,
    perform,
    task_worker,
)
from tests.support.facts import DEADLINE, until
from tests.support.fork_server import ForkedProcess, fork
from tests.support.lab import Probe
from trellis_jobs import (
    Accepted,
    ActiveJob,
    JobRef,
    KeyConcurrency,
    Queue,
    QueueDepth,
    Service,
    Workers,
)
from trellis_jobs.contract.declaration import JobOptions
from trellis_jobs.contract.key_policy import KeyPolicy
from trellis_jobs.contract.topology import KEYS
from trellis_jobs.model import subjects
from trellis_jobs.model.events import EventKind
from trellis_jobs.model.job import Entry
from trellis_jobs.model.keys.state import KeyAddress, KeyState, Slot
from trellis_jobs.model.states import OVER
from trellis_jobs.model.values import replace
from trellis_jobs.wire import keys as wire

SERVICE: Final = "yard"
NANOSECONDS: Final = 1e9


def by_key(max_active: int = 1, stale_policy: str = "fail-stale") -> KeyConcurrency:
    return KeyConcurrency(["yard", "/key"], max_active, stale_policy=stale_policy)


MANY: Final = QueueDepth(max_queued_per_key=1000)


_BRISK: Final[JobOptions] = {
    "concurrency": 10,
    "ack_wait": 1,
    "backoff": [0.1],
    "queue": MANY,
}
_FEW: Final = QueueDepth(max_queued_per_key=20)
# The leases of calm queues outlast every test: what happens there was not caused by their end.
CALM: Final = 10 * DEADLINE
YARD: Final = example_jobs(
    SERVICE,
    Task,
    Report,
    calm={
        "concurrency": 10,
        "ack_wait": CALM,
        "backoff": [0.1],
        "key": by_key(),
        "queue": MANY,
    },
    # A worker's death is the end of its jobs.
    calm_last={
        "concurrency": 10,
        "ack_wait": CALM,
        "max_deliver": 1,
        "key": by_key(),
        "queue": MANY,
    },
    calm_strict={"concurrency": 10, "ack_wait": CALM, "max_deliver": 1, "key": by_key()},
    # A job that waits for its key here reads the key again only when it is told of a change.
    serene={
        "concurrency": 10,
        "key": KeyConcurrency(["yard", "/key"], heartbeat_interval=CALM),
        "queue": MANY,
    },
    brisk={**_BRISK, "max_deliver": 100, "key": by_key()},
    brisk_three={**_BRISK, "max_deliver": 100, "key": by_key(3)},
    mortal={**_BRISK, "max_deliver": 1, "key": by_key()},
    blocked={**_BRISK, "concurrency": 1, "key": by_key(1, stale_policy="block")},
    crowd={"concurrency": 8, "backoff": [0.1], "key": by_key(), "queue": _FEW},
    crowd_three={"concurrency": 8, "backoff": [0.1], "key": by_key(3), "queue": _FEW},
)


def lease_of(queue: Queue[Task, Report]) -> KeyPolicy:
    key_policy = queue.type.key_policy
    assert key_policy is not None
    return key_policy


# What handlers did


@dataclass(frozen=True)
class Run:
    """One handler run, in nanoseconds of the machine's own clock; inf: it was not seen to end."""

    job_id: str
    key: str
    begun: float
    ended: float = float("inf")


def most_at_once(runs: Iterable[Run]) -> dict[str, int]:
    """For each key, how many of its handlers ran side by side at the worst moment."""
    steps = sorted(
        step for run in runs for step in ((run.begun, 1, run.key), (run.ended, -1, run.key))
    )
    at_once: dict[str, int] = defaultdict(int)
    most: dict[str, int] = defaultdict(int)
    for _, change, key in steps:
        at_once[key] += change
        most[key] = max(most[key], at_once[key])
    return dict(most)


def most_active(entries: Sequence[Entry]) -> int:
    """How many jobs of one key were active at once, by the order of the log."""
    active: set[str] = set()
    most = 0
    for entry in sorted(entries, key=lambda entry: entry.sequence):
        status = entry.status
        assert status is not None
        if status.owner is not None:
            active.add(entry.event.job.job_id)
        else:
            active.discard(entry.event.job.job_id)
        most = max(most, len(active))
    return most


def yard_worker(*, grace: float = 5.0) -> TaskWorker:
    return task_worker(Service(YARD, grace=grace))


@asynccontextmanager
async def worker(
    url: str, *queues: str, concurrency: int | None = None, grace: float = 0.0
) -> AsyncIterator[TaskWorker]:
    """At its end running handlers are interrupted."""
    made = yard_worker(grace=grace)
    async with made.service.connect(url, workers=Workers(queues, concurrency)):
        yield made


@asynccontextmanager
async def producer(url: str) -> AsyncIterator[TaskJobs]:
    service = Service(YARD)
    async with service.connect(url, workers=False):
        yield service.jobs


# Keys, as they are in the bucket


@dataclass(frozen=True)
class KeyView:
    """One key of one queue, read and written past all of our code."""

    raw: Probe
    empty: KeyState

    @property
    def subject(self) -> str:
        return subjects.key_state(self.empty.address)

    async def read(self) -> KeyState:
        answer = await self.raw.connection.request(f"$JS.API.DIRECT.GET.{KEYS}.{self.subject}")
        headers = answer.headers or {}
        if headers.get("Status") == "404" or headers.get("KV-Operation") == "DEL":
            return self.empty
        found = wire.decode(answer.data, expected=self.empty.address)
        assert isinstance(found, KeyState)
        return found

    async def change(self, move: Callable[[KeyState], KeyState]) -> None:
        """As a stranger would: read, and write over whatever is there by then."""
        written = await self.raw.connection.request(
            self.subject, wire.encode(move(await self.read()))
        )
        assert "error" not in orjson.loads(written.data)

    async def delete(self) -> None:
        """As `nats kv del` does."""
        marked = await self.raw.connection.request(self.subject, headers={"KV-Operation": "DEL"})
        assert "error" not in orjson.loads(marked.data)

    async def until_held_by(self, ref: JobRef[Report]) -> Slot:
        async def held() -> Slot | None:
            return (await self.read()).slot_of(ref.id)

        return await until(held, f"{ref} holds a slot")

    async def until_queued(self, count: int) -> None:
        async def queued() -> bool:
            return len((await self.read()).queued) == count

        await until(queued, f"{count} wait")

    async def until_empty(self) -> KeyState:
        async def empty() -> KeyState | None:
            state = await self.read()
            return None if state.active or state.queued else state

        return await until(empty, f"nothing is left in {self.empty.display}")


def key_view(raw: Probe, queue: Queue[Task, Report], key: str = "acme") -> KeyView:
    key_policy = lease_of(queue)
    resolved = key_policy.template.resolve({"key": key})
    empty = KeyState(
        address=KeyAddress(SERVICE, queue.type.name, resolved.hash),
        display=resolved.display,
        max_active=key_policy.max_active,
        max_queued=key_policy.max_queued,
    )
    return KeyView(raw, empty)


def without_slots(state: KeyState) -> KeyState:
    return replace(state, active=())


# Histories


async def history_of(raw: Probe, refs: Iterable[JobRef[Report]]) -> list[Entry]:
    """All events of these jobs, in the order of the log."""
    histories = await asyncio.gather(*(raw.events.history(ref.address) for ref in refs))
    return sorted((entry for one in histories for entry in one), key=lambda entry: entry.sequence)


async def started_order(raw: Probe, refs: Iterable[JobRef[Report]]) -> list[str]:
    entries = await history_of(raw, refs)
    return [e.event.job.job_id for e in entries if e.event.kind is EventKind.STARTED]


async def until_kind(raw: Probe, ref: JobRef[Report], kind: EventKind) -> None:
    async def there() -> bool:
        return kind in await raw.kinds(ref)

    await until(there, f"{ref} has a {kind} event")


async def until_out(raw: Probe, queue: Queue[Task, Report], count: int) -> None:
    """Waits until this many deliveries are with workers, running or parked."""

    async def there() -> bool:
        info = await consumer_info(raw, queue)
        return int(info["num_pending"]) == 0 and int(info["num_ack_pending"]) == count

    await until(there, f"{count} deliveries are out")


async def consumer_info(raw: Probe, queue: Queue[Task, Report]) -> dict[str, Any]:
    name = f"$JS.API.CONSUMER.INFO.JOBS_WORK.{SERVICE}-{queue.type.name}"
    info: dict[str, Any] = orjson.loads((await raw.connection.request(name)).data)
    return info


async def all_over(raw: Probe, refs: Iterable[JobRef[Report]]) -> bool:
    heads = await asyncio.gather(*(raw.events.head(ref.address) for ref in refs))
    return all(head is not None and head.status.state in OVER for head in heads)


# A worker in another process


@dataclass
class YardProcess:
    process: ForkedProcess
    folder: Path
    killed_at: float = float("inf")

    @property
    def runs(self) -> list[Run]:
        """What its handlers did; what a kill cut off ended with the kill."""
        begun: dict[tuple[str, str], Run] = {}
        for word, job_id, tries, key, at in self._lines("runs"):
            if word == "begin":
                begun[job_id, tries] = Run(job_id, key, float(at), self.killed_at)
            else:
                begun[job_id, tries] = dataclasses.replace(begun[job_id, tries], ended=float(at))
        return list(begun.values())

    @property
    def cancelled(self) -> list[str]:
        return [line[1] for line in self._lines("runs") if line[0] == "cancelled"]

    @property
    def outcomes(self) -> list[tuple[str, str]]:
        """(what became of it, job id) of each create of this process."""
        return [(line[0], line[1]) for line in self._lines("outcomes")]

    def _lines(self, name: str) -> list[list[str]]:
        """Complete ones: a kill may have cut the last one off."""
        written = self.folder / name
        text = written.read_text() if written.exists() else ""
        return [line.split() for line in text.splitlines(keepends=True) if line.endswith("\n")]

    def let_go(self) -> None:
        (self.folder / "go").touch()

    def begin_creating(self) -> None:
        (self.folder / "create").touch()

    def kill(self) -> None:
        self.send(signal.SIGKILL)
        self.process.wait()
        self.killed_at = time.monotonic() * NANOSECONDS

    def send(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    async def until_ready(self) -> None:
        await until((self.folder / "ready").exists, "the worker is ready")

    async def until_running(self, ref: JobRef[Report]) -> None:
        await until(lambda: ref.id in [run.job_id for run in self.runs], f"{ref} runs")

    async def until_exit(self) -> int:
        await until(lambda: self.process.poll() is not None, "the worker exits")
        return self.process.wait()

    @property
    def output(self) -> str:
        return (self.folder / "output").read_text()


@contextmanager
def yard_process(
    url: str,
    folder: Path,
    queue: str,
    *,
    concurrency: int = 0,
    creates: int = 0,
    dead_after: float = 25.0,
) -> Iterator[YardProcess]:
    """It works on one queue, or several with commas between.

    It creates `creates` jobs of the last one, over five keys, once it is told to.
    """
    started = start_process(
        url, folder, queue, concurrency=concurrency, creates=creates, dead_after=dead_after
    )
    try:
        yield started
    finally:
        started.process.kill()
        started.process.wait()


def start_process(
    url: str,
    folder: Path,
    queue: str,
    *,
    concurrency: int = 0,
    creates: int = 0,
    dead_after: float = 25.0,
) -> YardProcess:
    folder.mkdir(parents=True, exist_ok=True)
    arguments = map(str, (url, folder, queue, concurrency, creates, dead_after))
    with (folder / "output").open("wb") as output:
        process = fork("tests.keys.work_lab", *arguments, stdout=output)
    return YardProcess(process, folder)


class _Notebook:
    """What the handlers of this process did, a line at a time; the clock is the machine's."""

    def __init__(self, folder: Path) -> None:
        self._runs = (folder / "runs").open("a", buffering=1)
        self._go = folder / "go"

    async def handle(self, active: ActiveJob[Task]) -> Report:
        self._note("begin", active)
        word = "end"
        try:
            await perform(active, self._wait)
        except asyncio.CancelledError:
            word = "cancelled"
            raise
        finally:
            self._note(word, active)
        return Report(tries=active.tries)

    def _note(self, word: str, active: ActiveJob[Task]) -> None:
        key = active.payload.key
        self._runs.write(f"{word} {active.id} {active.tries} {key} {time.monotonic_ns()}\n")

    async def _wait(self, _: str) -> None:
        await until(self._go.exists, "the test lets waiting handlers go on", deadline=3600)


async def _create(jobs: Queue[Task, Report], folder: Path, count: int) -> None:
    await until((folder / "create").exists, "the test lets it create", deadline=3600)

    async def submit(number: int) -> str:
        errand = Task(key=f"key-{number % 5}", do="nap", seconds=0.01)
        outcome = await jobs.submit(errand)
        if isinstance(outcome, Accepted):
            return f"accepted {outcome.ref.id}\n"
        return f"{type(outcome).__name__.lower()} -\n"

    made = await asyncio.gather(*(submit(number) for number in range(count)))
    (folder / "outcomes").write_text("".join(made))


async def _main(
    service: Service[TaskJobs], url: str, folder: Path, queue: str, concurrency: int, creates: int
) -> None:
    notebook = _Notebook(folder)
    for name in queue.split(","):
        worked_on: Queue[Task, Report] = getattr(service.jobs, name)
        worked_on.handle(notebook.handle)
    async with service.connect(url, workers=Workers(concurrency=concurrency or None)):
        ending = asyncio.create_task(service.wait())
        await asyncio.sleep(0)  # now it listens to signals
        (folder / "ready").touch()
        creating = asyncio.create_task(_create(worked_on, folder, creates))
        await ending
        creating.cancel()
        with suppress(asyncio.CancelledError):
            await creating


def seconds(duration: timedelta) -> float:
    return duration.total_seconds()


if __name__ == "__main__":
    import logging

    logging.basicConfig(level=logging.INFO)
    _, to, where, which, at_once, new, silent = sys.argv
    yard = Service(YARD, grace=5.0, dead_after=float(silent))
    asyncio.run(_main(yard, to, Path(where), which, int(at_once), int(new)))
