"""huey on Redis."""

from __future__ import annotations

from contextlib import asynccontextmanager

from huey import RedisHuey
from redis import ConnectionPool

from benchmarks.peers import handlers
from benchmarks.peers.adapter import Adapter
from benchmarks.peers.handlers import TRIAL
from benchmarks.peers.trial import Broker

# redis-py allows 100 connections unless told otherwise, and 200 threads want one each.
POOL = ConnectionPool.from_url(TRIAL.addresses[Broker.REDIS], max_connections=1_000)
huey = RedisHuey("peers", connection_pool=POOL, results=TRIAL.is_full)
work = huey.task(name="work")(handlers.work)


class HueyQueue(Adapter):
    @asynccontextmanager
    async def connected(self):
        huey.storage.conn.ping()
        yield

    async def enqueue(self, job):
        work(*job)

    async def enqueue_many(self, jobs):
        """There is no bulk call."""
        for job in jobs:
            work(*job)

    async def pending(self):
        return huey.storage.queue_size()


ADAPTER = HueyQueue()
