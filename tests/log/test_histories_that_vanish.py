"""A job may be purged while its history is read."""

from __future__ import annotations

import asyncio

from tests.support.example_service import Task
from tests.support.lab import probe, producer
from trellis_jobs.embedded import EmbeddedServer
from trellis_jobs.jetstream.log.purge import purge_job


async def test_a_history_that_is_purged_while_it_is_read_is_empty_or_whole(
    server: EmbeddedServer,
) -> None:
    async with producer(server.url) as jobs, probe(server.url) as raw:
        refs = await jobs.work.create_many(Task() for _ in range(100))
        everything = 10**12

        async def read(number: int) -> int:
            return len(await raw.events.history(refs[number].address))

        async def purge(number: int) -> None:
            for _ in range(number % 5):
                await raw.connection.flush()
            await purge_job(raw.connection, refs[number].address, up_to=everything)

        async with asyncio.timeout(20):
            for number in range(len(refs)):
                found, _ = await asyncio.gather(read(number), purge(number))
                assert found in {0, 1}
