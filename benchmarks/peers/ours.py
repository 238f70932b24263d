"""trellis-jobs, through its public interface; `trellis-jobs worker` is given `service`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Final

import nats
from nats.js import JetStreamContext
from pydantic import BaseModel

from benchmarks.peers.adapter import Adapter, until
from benchmarks.peers.adapter import Job as Asked
from benchmarks.peers.handlers import TRIAL, work_async
from benchmarks.peers.trial import Broker
from trellis_jobs import ActiveJob, Jobs, Service, job

NATS: Final = TRIAL.addresses[Broker.NATS]


class Work(BaseModel):
    number: int
    seconds: float


class PeerJobs(Jobs, service="peers"):
    work = job(Work, int, concurrency=TRIAL.concurrency)


service: Final = Service(PeerJobs)


@service.jobs.work.handle
async def work(job: ActiveJob[Work]) -> int:
    return await work_async(job.payload.number, job.payload.seconds)


class OurQueue(Adapter):
    _jetstream: JetStreamContext

    @asynccontextmanager
    async def connected(self) -> AsyncIterator[None]:
        client = await nats.connect(NATS)
        self._jetstream = client.jetstream()
        async with service.connect(NATS, workers=False):
            yield
        await client.close()

    async def enqueue(self, job: Asked) -> None:
        await service.jobs.work.create(Work(number=job.number, seconds=job.seconds))

    async def enqueue_many(self, jobs: Sequence[Asked]) -> None:
        await service.jobs.work.create_many(
            Work(number=job.number, seconds=job.seconds) for job in jobs
        )

    async def pending(self) -> int:
        return (await self._jetstream.stream_info("JOBS_WORK")).state.messages

    async def prepare_drain(self) -> None:
        """The server has moved all jobs from the log to the work queue, which takes it a moment."""

        async def all_are_queued() -> bool:
            return await self.pending() >= TRIAL.jobs

        await until(all_are_queued)


ADAPTER: Final = OurQueue()
