"""The ceiling: the same messages over the same kind of connection, and nothing else.

create: one guarded, confirmed publish; many of them in rows that are confirmed.
drain: pull, guarded `started` confirmed, guarded `completed` confirmed, ack.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Coroutine, Iterator
from contextlib import asynccontextmanager
from itertools import count, islice
from typing import Any, Final

import orjson

from benchmarks.measure import Drained, Entries, Measured, Moments, Stopwatch, now
from benchmarks.workload import BARE, CONCURRENCY, QUEUE, templates
from trellis_jobs.contract.topology import WORK, Topology, queue_consumer
from trellis_jobs.jetstream.client.connection import Connection
from trellis_jobs.jetstream.client.fast_batch import FastBatch
from trellis_jobs.jetstream.client.message import Message
from trellis_jobs.jetstream.log.prepared_event import PreparedEvent
from trellis_jobs.jetstream.setup.features import detect_features
from trellis_jobs.jetstream.setup.provision import provision
from trellis_jobs.jetstream.work.consumer_setup import ensure_consumer
from trellis_jobs.model import subjects
from trellis_jobs.model.events import EventKind
from trellis_jobs.model.identity import JobAddress
from trellis_jobs.wire import headers as h

ROW: Final = 128  # as create_many has them, and as many under way
ROWS_UNDER_WAY: Final = 4
TOP_UP: Final = CONCURRENCY // 8
PULL: Final = b'{"batch":%d,"expires":5000000000}'
EVENTS: Final = templates()
JOBS_PREFIX: Final = subjects.history(JobAddress(BARE, QUEUE.name, "_")).removesuffix("_.>")


async def create_many(url: str, jobs: int) -> Measured:
    async with _connected(url) as connection:
        watch, numbers = Stopwatch(), iter(_fresh_numbers(jobs))
        under_way: deque[Awaitable[Message]] = deque()
        while parts := tuple(map(_created, islice(numbers, ROW))):
            if len(under_way) == ROWS_UNDER_WAY:
                _see_that_it_is_one(await under_way.popleft())
            under_way.append(FastBatch(parts).send(connection))
            await asyncio.sleep(0)
        for asked in under_way:
            _see_that_it_is_one(await asked)
        return watch.stop(jobs)


async def create_one_by_one(url: str, jobs: int) -> Measured:
    async with _connected(url) as connection:
        watch = Stopwatch()
        await _create_all(connection, iter(_fresh_numbers(jobs)))
        return watch.stop(jobs)


async def create_paced(url: str, jobs: int, pause: float) -> Moments:
    """One job at a time, with time to be picked up; returns when each was published."""
    moments: Moments = {}
    async with _connected(url) as connection:
        for number in _fresh_numbers(jobs):
            moments[number] = now()
            await _create_all(connection, iter((number,)))
            await asyncio.sleep(pause)
    return moments


async def drain(url: str, jobs: int) -> Drained:
    """Work until `jobs` are done."""
    async with _connected(url) as connection:
        pump = Pump(connection, Entries(jobs))
        await pump.open()
        await pump.done()
        await connection.flush()
        return Drained(pump.entries.stop(), pump.entries.moments, pump.pulled)


class Pump:
    """Keeps CONCURRENCY jobs in flight; asks for more once an eighth of them is done."""

    def __init__(self, connection: Connection, entries: Entries) -> None:
        self.entries = entries
        self.pulled: Moments = {}
        self._connection = connection
        self._inbox = connection.new_inbox()
        self._consumer = queue_consumer(BARE, QUEUE)
        self._next = connection.api(f"CONSUMER.MSG.NEXT.{WORK}.{self._consumer['name']}")
        self._owed = self._busy = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._pulls = count()

    async def open(self) -> None:
        await ensure_consumer(self._connection, self._consumer)
        await self._connection.subscribe(f"{self._inbox}.*", self._take)
        await self._top_up()

    async def done(self) -> None:
        await self.entries.all_entered()
        while self._busy:
            await asyncio.wait(self._tasks)

    def _take(self, message: Message) -> None:
        headers = message.headers or {}
        if "Status" in headers:
            self._owed = 0
            self._spawn(self._top_up())
        else:
            self._owed -= 1
            self._busy += 1
            self._spawn(self._work(message, h.source_sequence(headers) or 0))

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _work(self, message: Message, created: int) -> None:
        job_id = message.subject.rpartition(".")[2]
        number = int(job_id)
        self.pulled[number] = now()
        started = await _append(self._connection, job_id, EventKind.STARTED, created)
        self.entries.enter(number)
        await _append(self._connection, job_id, EventKind.COMPLETED, started)
        await self._connection.publish(message.reply, b"+ACK")
        self._busy -= 1
        await self._top_up()

    async def _top_up(self) -> None:
        free = CONCURRENCY - self._busy - self._owed
        if free >= TOP_UP or self._owed == 0:
            self._owed += free
            inbox = f"{self._inbox}.{next(self._pulls)}"
            await self._connection.publish(self._next, PULL % free, reply=inbox)


@asynccontextmanager
async def _connected(url: str) -> AsyncIterator[Connection]:
    connection = await Connection.open(url, name=f"{BARE} jobs")
    try:
        await provision(connection, Topology(await detect_features(connection)))
        yield connection
    finally:
        await connection.close()


def _fresh_numbers(jobs: int) -> range:
    first = time.time_ns()
    return range(first, first + jobs)


async def _create_all(connection: Connection, numbers: Iterator[int]) -> None:
    for number in numbers:
        await _append(connection, f"{number:026d}", EventKind.CREATED, 0)


def _created(number: int) -> PreparedEvent:
    job_id, template = f"{number:026d}", EVENTS[EventKind.CREATED]
    job = f"{JOBS_PREFIX}{job_id}"
    guard = {h.EXPECTED_SEQUENCE: "0", h.EXPECTED_SUBJECT: f"{job}.>"}
    block = h.block({**template.headers, **guard})
    address = JobAddress(BARE, QUEUE.name, job_id)
    return PreparedEvent(
        f"{job}.{EventKind.CREATED.value}", template.data, block, job_id, address, 0
    )


def _see_that_it_is_one(answer: Message) -> None:
    """A refusal ends the measurement."""
    assert b'"batch":' in answer.data, answer.data


async def _append(connection: Connection, job_id: str, kind: EventKind, last: int) -> int:
    """The event on top of the one with sequence `last`; a refusal ends the measurement."""
    job, template = f"{JOBS_PREFIX}{job_id}", EVENTS[kind]
    headers = {
        **template.headers,
        h.EXPECTED_SEQUENCE: str(last),
        h.EXPECTED_SUBJECT: f"{job}.>",
    }
    answer = await connection.request(f"{job}.{kind.value}", template.data, headers=headers)
    return int(orjson.loads(answer.data)["seq"])
