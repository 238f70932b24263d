"""The processes of the benchmark of retries, and what the log says about their jobs."""

from __future__ import annotations

import asyncio
import logging
import random
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

import orjson
from pydantic import BaseModel

from benchmarks.measure import Measured, Stopwatch
from benchmarks.stage import connected, until_over
from trellis_jobs import ActiveJob, Jobs, Service, Workers, job
from trellis_jobs.contract.topology import WORK, consumer_name
from trellis_jobs.jetstream.client.message import Message
from trellis_jobs.jetstream.log.feed import LogFeed, LogMessage, LogPosition
from trellis_jobs.model import nak_timing
from trellis_jobs.model.events import EventKind

SERVICE: Final = "bench-retries"
ACK_WAIT: Final = 4.0
_CHUNK_SECONDS: Final = 0.02
# A failing call takes up to this many seconds, so that failures are spread evenly.
_MAX_CALL_SECONDS: Final = 0.1
# Seconds before the end of a lease in which a start cannot be that of the next delivery.
_MARGIN: Final = 1.0


class Nothing(BaseModel):
    pass


class RetryJobs(Jobs, service=SERVICE):
    soon = job(Nothing, concurrency=200, ack_wait=ACK_WAIT, backoff=[0.5])
    later = job(Nothing, concurrency=200, ack_wait=ACK_WAIT, backoff=[5])
    latest = job(Nothing, concurrency=200, ack_wait=ACK_WAIT, backoff=[30])


QUEUES: Final = {0.5: "soon", 5: "later", 30: "latest"}


class Unreachable(Exception):
    """What every job meets on its first try."""


@dataclass(frozen=True, slots=True)
class Lateness:
    """Seconds from when a try could start to its `started`, of planned retries and of takeovers."""

    retries: list[float]
    takeovers: list[float]


def _failing_service() -> Service[RetryJobs]:
    service = Service(RetryJobs)

    async def handle(job: ActiveJob[Nothing]) -> None:
        if job.tries == 1:
            await asyncio.sleep(random.uniform(0, _MAX_CALL_SECONDS))  # noqa: S311 - it spreads them
            raise Unreachable("the service that this job needs does not answer")

    for queue in QUEUES.values():
        getattr(service.jobs, queue).handle(handle)
    return service


async def prepare(url: str, queue: str) -> None:
    """Makes the streams and the consumer."""
    async with _failing_service().connect(url, workers=Workers([queue])):
        pass


async def create(url: str, queue: str, rate: int, jobs: int) -> None:
    """Creates jobs at an even rate."""
    service = Service(RetryJobs)
    chunk = max(1, int(rate * _CHUNK_SECONDS))
    async with service.connect(url, workers=False):
        began = time.monotonic()
        for created in range(0, jobs, chunk):
            await asyncio.sleep(began + created / rate - time.monotonic())
            payloads = [Nothing()] * min(chunk, jobs - created)
            await getattr(service.jobs, queue).create_many(payloads)


async def work(url: str, queue: str, jobs: int, burst_interval: float) -> Measured:
    """Fails the first try of every job, until all are done. An interval of 0 means no bursts."""
    logging.disable()
    setattr(nak_timing, "BURST_INTERVAL", burst_interval)  # noqa: B010 - it is Final
    service = _failing_service()
    async with service.connect(url, workers=Workers([queue])):
        watch = Stopwatch()
        await until_over(url, jobs)
        measured = watch.stop(jobs)
        await service.stop()
        return measured


async def leave_unanswered(url: str, queue: str, rate: float, seconds: float) -> dict[str, float]:
    """Takes deliveries and never answers. Returns when the lease of each job ended."""
    ends: dict[str, float] = {}

    def take(message: Message) -> None:
        if message.status is None:
            ends[message.subject.rpartition(".")[2]] = time.time() + ACK_WAIT

    async with connected(url) as connection:
        inbox = connection.new_inbox()
        await connection.subscribe(inbox, take)
        pull = connection.api(f"CONSUMER.MSG.NEXT.{WORK}.{consumer_name(SERVICE, queue)}")
        for _ in range(int(rate * seconds)):
            await connection.publish(pull, b'{"batch":1,"expires":2000000000}', reply=inbox)
            await asyncio.sleep(1 / rate)
        await asyncio.sleep(2)
    return ends


async def read_lateness(url: str, unanswered: dict[str, float]) -> Lateness:
    found = Lateness([], [])
    due = dict(unanswered)
    async with connected(url) as connection:
        feed = LogFeed(connection)
        last = (await feed.extent()).last_sequence
        async for batch in feed.up_to(LogPosition(), last):
            for message in batch:
                _read(message, due, unanswered, found)
    return found


def _read(
    message: LogMessage, due: dict[str, float], unanswered: dict[str, float], found: Lateness
) -> None:
    *_, job_id, kind = message.subject.split(".")
    if kind == EventKind.RETRY.value and job_id not in unanswered:
        due[job_id] = _seconds(orjson.loads(message.data)["nextAttemptAt"])
    elif kind == EventKind.STARTED.value and job_id in due:
        late = _seconds(orjson.loads(message.data)["timestamp"]) - due[job_id]
        if job_id not in unanswered:
            found.retries.append(late)
        elif late > -_MARGIN:
            found.takeovers.append(late)
        else:
            return  # it was started before a delivery of it was left unanswered
        del due[job_id]


def _seconds(moment: str) -> float:
    return datetime.fromisoformat(moment).astimezone(UTC).timestamp()
