"""dramatiq on Redis."""

from __future__ import annotations

from contextlib import asynccontextmanager

import dramatiq
from dramatiq.brokers.redis import RedisBroker
from dramatiq.results import Results
from dramatiq.results.backends import RedisBackend

from benchmarks.peers import handlers
from benchmarks.peers.adapter import Adapter
from benchmarks.peers.handlers import TRIAL
from benchmarks.peers.trial import Broker

REDIS = TRIAL.addresses[Broker.REDIS]
broker = RedisBroker(url=REDIS)
if TRIAL.is_full:
    broker.add_middleware(Results(backend=RedisBackend(url=REDIS), store_results=True))
dramatiq.set_broker(broker)
work = dramatiq.actor(handlers.work, actor_name="work")


class DramatiqQueue(Adapter):
    @asynccontextmanager
    async def connected(self):
        broker.client.ping()
        yield

    async def enqueue(self, job):
        work.send(*job)

    async def enqueue_many(self, jobs):
        """There is no bulk call."""
        for job in jobs:
            work.send(*job)

    async def pending(self):
        return broker.client.hlen("dramatiq:default.msgs")


ADAPTER = DramatiqQueue()
