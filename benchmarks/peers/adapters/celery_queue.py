"""Celery on Redis and on RabbitMQ. Results are kept in Redis, as its documentation advises."""

from __future__ import annotations

from contextlib import asynccontextmanager

from celery import Celery
from redis import Redis

from benchmarks.peers import handlers
from benchmarks.peers.adapter import Adapter
from benchmarks.peers.handlers import TRIAL
from benchmarks.peers.trial import Broker

REDIS = TRIAL.addresses[Broker.REDIS]
RABBITMQ = TRIAL.addresses.get(Broker.RABBITMQ)

app = Celery("peers", broker=RABBITMQ or REDIS, backend=REDIS if TRIAL.is_full else None)
app.conf.update(
    task_ignore_result=not TRIAL.is_full,
    task_acks_late=TRIAL.is_full,
    task_reject_on_worker_lost=TRIAL.is_full,
    broker_connection_retry_on_startup=True,
    # Without it the producer does not know whether a job reached RabbitMQ.
    broker_transport_options={"confirm_publish": True} if RABBITMQ else {},
)
work = app.task(name="work")(handlers.work)


class CeleryQueue(Adapter):
    @asynccontextmanager
    async def connected(self):
        with app.producer_or_acquire() as self._producer:
            yield

    async def enqueue(self, job):
        work.apply_async(tuple(job))

    async def enqueue_many(self, jobs):
        """There is no bulk call: the same connection for all of them is what helps most."""
        for job in jobs:
            work.apply_async(tuple(job), producer=self._producer)

    async def pending(self):
        if RABBITMQ:
            with app.connection_for_read() as connection:
                return connection.default_channel.queue_declare("celery", passive=True)[1]
        with Redis.from_url(REDIS) as redis:
            return redis.llen("celery") + redis.hlen("unacked")


ADAPTER = CeleryQueue()
