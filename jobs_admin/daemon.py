"""The composition root of the admin runtime: one task group of named loops, and the requests."""

from __future__ import annotations

import asyncio
import logging
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from jobs_admin.actions import Actions
from jobs_admin.loops import Loops
from jobs_admin.projection.projector import Projector
from jobs_admin.projection.store import Projection
from jobs_admin.reads.readers import Readers
from jobs_admin.rpc.job_methods import JobMethods
from jobs_admin.rpc.router import Router
from trellis_jobs.jetstream.connection import Connection
from trellis_jobs.jetstream.event_log import EventLog
from trellis_jobs.jetstream.log_feed import LogFeed
from trellis_jobs.jetstream.requests import Desk
from trellis_jobs.jetstream.server import detect_features
from trellis_jobs.model import subjects
from trellis_jobs.surroundings import Surroundings

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from jobs_admin.config import AdminConfig

log = logging.getLogger(__name__)

GROUP: Final = "jobs-admin"


@dataclass(frozen=True, slots=True)
class Daemon:
    """A running admin runtime."""

    connection: Connection
    events: EventLog
    projector: Projector
    readers: Readers
    loops: Loops


@asynccontextmanager
async def serving(
    config: AdminConfig, surroundings: Surroundings | None = None
) -> AsyncIterator[Daemon]:
    """Runs, and answers, until the block is left."""
    around = surroundings or Surroundings()
    async with AsyncExitStack() as opened:
        connection = await Connection.open(
            config.nats, name="jobs admin", credentials=config.credentials
        )
        opened.push_async_callback(connection.close)
        features = await detect_features(connection)
        events = EventLog(connection, features)
        projection = await opened.enter_async_context(Projection.open(config.path))
        readers = await opened.enter_async_context(Readers.open(config.path))
        projector = Projector(LogFeed(connection), projection)
        loops = Loops(around.now)
        methods = {
            **JobMethods(readers, projector, Actions(events, around.now)).table(),
        }
        desk = Desk(connection, Router(methods, around.new_id).answer)
        running = asyncio.create_task(_run(loops, projector))
        opened.push_async_callback(_end, running)
        await desk.open(subjects.rpc("Jobs.*"), group=GROUP)
        opened.push_async_callback(desk.close)
        yield Daemon(connection, events, projector, readers, loops)


async def _run(loops: Loops, projector: Projector) -> None:
    async with asyncio.TaskGroup() as running:
        running.create_task(loops.keep("projector", projector.run))


async def _end(running: asyncio.Task[None]) -> None:
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
