"""arq on Redis, with uvloop."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager

import uvloop
from arq import create_pool
from arq.connections import RedisSettings

from benchmarks.peers.adapter import Adapter, many_at_once
from benchmarks.peers.handlers import TRIAL, work_async
from benchmarks.peers.trial import Broker

asyncio.set_event_loop_policy(uvloop.EventLoopPolicy())
REDIS = RedisSettings.from_dsn(TRIAL.addresses[Broker.REDIS])
LANES = 100


async def work(ctx, number, seconds):
    return await work_async(number, seconds)


class WorkerSettings:
    functions = (work,)
    redis_settings = REDIS
    max_jobs = TRIAL.concurrency
    keep_result = 3600 if TRIAL.is_full else 0
    log_results = False


LOGS = {"version": 1, "loggers": {"arq": {"level": "WARNING"}}, "disable_existing_loggers": False}


class ArqQueue(Adapter):
    @asynccontextmanager
    async def connected(self):
        self._pool = await create_pool(REDIS)
        yield
        await self._pool.aclose()

    async def enqueue(self, job):
        await self._pool.enqueue_job("work", *job)

    async def enqueue_many(self, jobs):
        await many_at_once(jobs, LANES, self.enqueue)

    async def pending(self):
        return await self._pool.zcard("arq:queue")


ADAPTER = ArqQueue()
