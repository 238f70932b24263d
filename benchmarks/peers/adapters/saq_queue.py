"""SAQ on Redis, with uvloop."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager

import uvloop
from saq import Queue

from benchmarks.peers.adapter import Adapter, many_at_once
from benchmarks.peers.handlers import TRIAL, work_async
from benchmarks.peers.trial import Broker

asyncio.set_event_loop_policy(uvloop.EventLoopPolicy())
LANES = 50
DELETED_AT_ONCE = -1
TEN_MINUTES = 600  # SAQ's default
queue = Queue.from_url(TRIAL.addresses[Broker.REDIS])
ttl = TEN_MINUTES if TRIAL.is_full else DELETED_AT_ONCE


async def work(ctx, *, number, seconds):
    return await work_async(number, seconds)


settings = {"queue": queue, "functions": [work], "concurrency": TRIAL.concurrency}


class SaqQueue(Adapter):
    @asynccontextmanager
    async def connected(self):
        await queue.connect()
        yield
        await queue.disconnect()

    async def enqueue(self, job):
        await queue.enqueue("work", **job._asdict(), ttl=ttl, timeout=30)

    async def enqueue_many(self, jobs):
        await many_at_once(jobs, LANES, self.enqueue)

    async def pending(self):
        return await queue.count("incomplete")


ADAPTER = SaqQueue()
