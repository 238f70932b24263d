"""procrastinate on PostgreSQL, with uvloop. `python -m` this file is a worker.

It keeps no results; in full mode the jobs and their three events stay, as by default.
"""

from __future__ import annotations

import importlib
from contextlib import asynccontextmanager

import psycopg
import uvloop
from procrastinate import App, PsycopgConnector

from benchmarks.peers.adapter import Adapter, batches
from benchmarks.peers.handlers import TRIAL, work_async
from benchmarks.peers.trial import Broker

POSTGRES = TRIAL.addresses[Broker.POSTGRES]
UNFINISHED = "select count(*) from procrastinate_jobs where status in ('todo', 'doing')"
SCHEMA = "select to_regclass('procrastinate_jobs')"
app = App(connector=PsycopgConnector(conninfo=POSTGRES, min_size=2, max_size=10))


@app.task(name="work")
async def work(number: int, seconds: float) -> int:
    return await work_async(number, seconds)


class ProcrastinateQueue(Adapter):
    @asynccontextmanager
    async def connected(self):
        async with app.open_async():
            if await _ask(SCHEMA) is None:
                await app.schema_manager.apply_schema_async()
            yield

    async def enqueue(self, job):
        await work.defer_async(**job._asdict())

    async def enqueue_many(self, jobs):
        for batch in batches(jobs):
            await work.batch_defer_async(*(job._asdict() for job in batch))

    async def pending(self):
        return await _ask(UNFINISHED)

    async def prepare_drain(self):
        """Autovacuum would do it within a minute; without it, fetching goes by a bad plan."""
        async with await psycopg.AsyncConnection.connect(POSTGRES, autocommit=True) as connection:
            await connection.execute("vacuum analyze")


async def _ask(question):
    async with await psycopg.AsyncConnection.connect(POSTGRES) as connection:
        [answer] = await (await connection.execute(question)).fetchone()
        return answer


async def _work():
    # Not the `app` of this file: run as a program it is another module, without the task's path.
    itself = importlib.import_module("benchmarks.peers.adapters.procrastinate_queue").app
    async with itself.open_async():
        await itself.run_worker_async(
            concurrency=TRIAL.concurrency, delete_jobs="never" if TRIAL.is_full else "always"
        )


ADAPTER = ProcrastinateQueue()

if __name__ == "__main__":
    uvloop.run(_work())
