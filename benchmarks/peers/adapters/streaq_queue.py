"""streaQ on Redis streams, with uvloop."""

from __future__ import annotations

from contextlib import asynccontextmanager

from streaq import Worker

from benchmarks.peers.adapter import Adapter, batches
from benchmarks.peers.handlers import TRIAL, work_async
from benchmarks.peers.trial import Broker

FIVE_MINUTES = 300  # streaQ's default
worker = Worker(
    redis_url=TRIAL.addresses[Broker.REDIS],
    concurrency=TRIAL.concurrency,
    anyio_kwargs={"use_uvloop": True},
)


@worker.task(ttl=FIVE_MINUTES if TRIAL.is_full else 0, silent=True)
async def work(number: int, seconds: float) -> int:
    return await work_async(number, seconds)


class StreaqQueue(Adapter):
    @asynccontextmanager
    async def connected(self):
        async with worker:
            yield

    async def enqueue(self, job):
        await work.enqueue(*job)

    async def enqueue_many(self, jobs):
        for batch in batches(jobs):
            await worker.enqueue_many([work.enqueue(*job) for job in batch])

    async def pending(self):
        return await worker.redis.xlen("streaq:default:queues:normal")


ADAPTER = StreaqQueue()
