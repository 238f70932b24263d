"""Where steps are measured: new processes for each, one server, and reads of its queues."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass
from threading import Thread
from typing import TYPE_CHECKING, Any, Final, TypeVar

import uvloop

from benchmarks.measure import Measured
from benchmarks.traffic import Traffic
from trellis_jobs.contract.topology import WORK, consumer_name
from trellis_jobs.jetstream.client import api
from trellis_jobs.jetstream.client.connection import Connection

if TYPE_CHECKING:
    from typing import Self

T = TypeVar("T")
Work = Callable[..., Coroutine[Any, Any, T]]
Look = Callable[[Connection], Coroutine[Any, Any, bool]]

LOOK: Final = 0.02
SLOW_LOOK: Final = 0.2


@dataclass(frozen=True, slots=True)
class Step:
    """What one step of one side took; messages are the server's count, both directions."""

    jobs_per_second: float
    cpu_microseconds: float
    sent: float
    received: float


class Stage:
    """Workers and producers are separate processes, started for every step."""

    def __init__(self, url: str, processes: int) -> None:
        self.url = url
        self._processes = ProcessPoolExecutor(
            processes,
            mp_context=multiprocessing.get_context("spawn"),
            initializer=_end_with_parent,
            max_tasks_per_child=1,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Ends processes that wait for jobs that will not come."""
        if kind is not None:
            for process in multiprocessing.active_children():
                process.kill()
        self._processes.shutdown()

    def do(self, work: Work[T], *args: object) -> T:
        return self.begin(work, *args).result()

    def begin(self, work: Work[T], *args: object) -> Future[T]:
        return self._processes.submit(_in_loop, work, self.url, *args)

    def begin_working(self, service: str, queue: str, work: Work[T], *args: object) -> Future[T]:
        """Returns once the worker has asked for jobs."""
        return self.append_first_many(1, service, queue, work, *args)[0]

    def append_first_many(
        self, processes: int, service: str, queue: str, work: Work[T], *args: object
    ) -> list[Future[T]]:
        working = [self.begin(work, *args) for _ in range(processes)]
        self.until_awaited(service, queue, working)
        return working

    def until_awaited(self, service: str, queue: str, working: Sequence[Future[Any]]) -> None:
        """All these processes have asked for jobs."""
        uvloop.run(until(self.url, _is_awaited(consumer_name(service, queue), working)))

    def until_queued(self, jobs: int) -> None:
        """The server has moved this many jobs from the log to the work queue."""
        uvloop.run(until(self.url, _holds(jobs)))

    def queued_so_far(self) -> int:
        """The number of the newest message in the work queue."""
        return uvloop.run(_queued_so_far(self.url))


class MeteredStage(Stage):
    """One whose server counts messages."""

    def __init__(self, url: str, traffic: Traffic, processes: int) -> None:
        super().__init__(url, processes)
        self._traffic = traffic

    def step(self, name: str, measure: Callable[[], Measured]) -> Step:
        client = f"{name} jobs"
        before = self._traffic.so_far(client)
        measured = measure()
        after = self._traffic.so_far(client)
        return Step(
            measured.jobs / measured.seconds,
            measured.cpu_seconds / measured.jobs * 1e6,
            (after.sent - before.sent) / measured.jobs,
            (after.received - before.received) / measured.jobs,
        )


async def until_taken(url: str, service: str, queue: str, jobs: int) -> None:
    """Workers have this many deliveries in hand."""
    consumer = consumer_name(service, queue)

    async def is_so(connection: Connection) -> bool:
        info = await api.request(connection, f"CONSUMER.INFO.{WORK}.{consumer}")
        return bool(info["num_ack_pending"] >= jobs)

    await until(url, is_so)


async def until_over(url: str, last: int) -> None:
    """The work queue has seen its message number `last`, and all of them are acknowledged."""

    async def is_so(connection: Connection) -> bool:
        state = await work_state(connection)
        return state["last_seq"] >= last and state["messages"] == 0

    await until(url, is_so, SLOW_LOOK)


async def until(url: str, is_so: Look, pause: float = LOOK) -> None:
    async with connected(url) as connection:
        while True:
            if await is_so(connection):
                return
            await asyncio.sleep(pause)


async def _queued_so_far(url: str) -> int:
    async with connected(url) as connection:
        return (await work_state(connection))["last_seq"]


async def work_state(connection: Connection) -> dict[str, int]:
    state: dict[str, int] = (await api.request(connection, f"STREAM.INFO.{WORK}"))["state"]
    return state


@asynccontextmanager
async def connected(url: str) -> AsyncIterator[Connection]:
    connection = await Connection.open(url, name="bench")
    try:
        yield connection
    finally:
        await connection.close()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None

    def follow() -> None:
        parent.join()
        os._exit(1)

    Thread(target=follow, daemon=True).start()


def _in_loop(work: Work[T], *args: object) -> T:
    return uvloop.run(work(*args))


def _holds(jobs: int) -> Look:
    async def is_so(connection: Connection) -> bool:
        return (await work_state(connection))["messages"] >= jobs

    return is_so


def _is_awaited(consumer: str, working: Sequence[Future[Any]]) -> Look:
    """All of them have asked for jobs; one that is done before that has failed."""

    async def is_so(connection: Connection) -> bool:
        for failed in (process for process in working if process.done()):
            failed.result()
        info = await api.request(connection, f"CONSUMER.INFO.{WORK}.{consumer}")
        return bool(info["num_waiting"] >= len(working))

    return is_so
