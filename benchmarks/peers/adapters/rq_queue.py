"""rq on Redis: one job at a time in a process."""

from __future__ import annotations

from contextlib import asynccontextmanager

from redis import Redis
from rq import Queue

from benchmarks.peers.adapter import Adapter, batches
from benchmarks.peers.handlers import TRIAL
from benchmarks.peers.trial import Broker

WORK = "benchmarks.peers.handlers.work"
KEPT = 500 if TRIAL.is_full else 0  # seconds; 500 is rq's default
redis = Redis.from_url(TRIAL.addresses[Broker.REDIS])
queue = Queue("default", connection=redis)


class RqQueue(Adapter):
    @asynccontextmanager
    async def connected(self):
        redis.ping()
        yield

    async def enqueue(self, job):
        queue.enqueue(WORK, *job, result_ttl=KEPT)

    async def enqueue_many(self, jobs):
        for batch in batches(jobs):
            queue.enqueue_many(
                [Queue.prepare_data(WORK, tuple(job), result_ttl=KEPT) for job in batch]
            )

    async def pending(self):
        return redis.llen("rq:queue:default") + redis.zcard("rq:wip:default")


ADAPTER = RqQueue()
