"""taskiq on a Redis list, on Redis streams and on JetStream; its command uses uvloop if it can."""

from __future__ import annotations

from contextlib import asynccontextmanager

from redis.asyncio import Redis
from taskiq_nats import NATSObjectStoreResultBackend, PullBasedJetStreamBroker
from taskiq_redis import ListQueueBroker, RedisAsyncResultBackend, RedisStreamBroker

from benchmarks.peers.adapter import Adapter, many_at_once
from benchmarks.peers.handlers import TRIAL, work_async
from benchmarks.peers.trial import Broker

LANES = 50


def _broker():
    if Broker.NATS in TRIAL.addresses:
        return _on_nats(TRIAL.addresses[Broker.NATS])
    return _on_redis(TRIAL.addresses[Broker.REDIS])


def _on_nats(url):
    # A shorter wait than 5 s leaves pulls behind, whose messages come late.
    hundred = {"pull_consume_batch": 100, "pull_consume_timeout": 5.0}
    broker = PullBasedJetStreamBroker(
        servers=[url], **(hundred if TRIAL.tool == "taskiq-nats-100" else {})
    )
    if TRIAL.is_full:
        return broker.with_result_backend(NATSObjectStoreResultBackend(servers=[url]))
    return broker


def _on_redis(url):
    broker = (ListQueueBroker if TRIAL.tool == "taskiq-list" else RedisStreamBroker)(url=url)
    if TRIAL.is_full:
        return broker.with_result_backend(RedisAsyncResultBackend(redis_url=url))
    return broker


broker = _broker()


@broker.task(task_name="work")
async def work(number: int, seconds: float) -> int:
    return await work_async(number, seconds)


class TaskiqQueue(Adapter):
    @asynccontextmanager
    async def connected(self):
        await broker.startup()
        yield
        await broker.shutdown()

    async def enqueue(self, job):
        await work.kiq(*job)

    async def enqueue_many(self, jobs):
        await many_at_once(jobs, LANES, self.enqueue)

    async def pending(self):
        if TRIAL.tool.startswith("taskiq-nats"):
            consumer = await broker.js.consumer_info("taskiq_jetstream", "taskiq_durable")
            return consumer.num_pending + consumer.num_ack_pending
        async with Redis.from_url(TRIAL.addresses[Broker.REDIS]) as redis:
            if TRIAL.tool == "taskiq-list":
                return await redis.llen("taskiq")
            [group] = await redis.xinfo_groups("taskiq")
            return (group.get("lag") or 0) + group["pending"]


ADAPTER = TaskiqQueue()
