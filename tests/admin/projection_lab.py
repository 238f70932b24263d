"""A log on a real server, filled by hand, and projections of it: here, or in another process."""

from __future__ import annotations

import asyncio
import signal
import sqlite3
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from jobs_admin.projection import rebuild
from jobs_admin.projection.projector import Projector
from tests.admin.made_log import Scribe, of, rows_of
from tests.given import (
    SECOND,
    completed,
    created,
    failed,
    logged,
    progressed,
    retried,
    started,
)
from tests.support.facts import until
from tests.support.fork_server import CLI, ForkedProcess, fork
from trellis_jobs.contract.topology import LOG, Topology
from trellis_jobs.jetstream.client import api
from trellis_jobs.jetstream.client.connection import Connection
from trellis_jobs.jetstream.log.feed import LogFeed
from trellis_jobs.jetstream.setup.features import detect_features
from trellis_jobs.jetstream.setup.provision import provision
from trellis_jobs.model import subjects
from trellis_jobs.model.concurrency import Concurrency
from trellis_jobs.model.events import EventKind
from trellis_jobs.model.identity import JobAddress

KEY = Concurrency(key="acme", key_hash="0" * 64)


@dataclass
class LogLab:
    """Writes into the log as services would, and looks at it."""

    connection: Connection
    scribe: Scribe = field(default_factory=Scribe)
    _sent: int = 0
    _jobs: int = 0

    @property
    def feed(self) -> LogFeed:
        return LogFeed(self.connection)

    async def make_log(self) -> None:
        await provision(self.connection, Topology(await detect_features(self.connection)))

    async def delete_log(self) -> None:
        await api.request(self.connection, "STREAM.DELETE.JOBS_WORK")
        await api.request(self.connection, f"STREAM.DELETE.{LOG}")
        self.scribe, self._sent = Scribe(), 0

    async def write_jobs(self, count: int) -> None:
        """By tens, their histories interleaved, with what does not belong in a log between."""
        for _ in range(0, count, 10):
            jobs = [
                JobAddress(f"s{n % 3}", f"t{n % 4}", f"job-{self._jobs + n}") for n in range(10)
            ]
            self._jobs += 10
            story = [
                created(concurrency=KEY),
                started(),
                progressed(),
                logged(),
                failed(),
                retried(concurrency=KEY),
                started(),
            ]
            for event in story:
                for job in jobs:
                    self.scribe.write(*of(job, event))
            self.scribe.write(*of(jobs[0], completed(attempt=SECOND)), *of(jobs[2], failed()))
            self.scribe.beat(f"pod-{self._jobs % 7}", jobs[0])
            self.scribe.add(subjects.lifecycle(jobs[1], EventKind.STARTED), b"rubbish")
            await self.send()

    async def send(self) -> None:
        """What was written since the last time; returns when the log has it."""
        for message in self.scribe.messages[self._sent :]:
            await self.connection.publish(message.subject, message.data)
            self._sent += 1
        await self.connection.flush()

    async def end(self) -> int:
        """The log's last sequence, once everything that was sent is in it."""

        async def everything() -> int | None:
            last = (await self.feed.extent()).last_sequence
            return last if last >= self._sent else None

        return await until(everything, "the log has everything")

    async def fresh_rows(self, folder: Path) -> dict[str, list[tuple[Any, ...]]]:
        """As a projection has them that is made at once from the log as it is."""
        path = folder / "fresh.sqlite"
        await rebuild.rebuild(path, self.feed)
        return rows_of(path)


@asynccontextmanager
async def log_lab(url: str) -> AsyncIterator[LogLab]:
    connection = await Connection.open(url, name="log lab")
    lab = LogLab(connection)
    await lab.make_log()
    try:
        yield lab
    finally:
        await connection.close()


@asynccontextmanager
async def projecting(lab: LogLab, path: Path) -> AsyncIterator[Projector]:
    """A projector at work, in this process."""
    async with Projector.open(lab.feed, path) as projector:
        running = asyncio.create_task(projector.run())
        try:
            await projector.until_open()
            yield projector
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)


async def until_at(projector: Projector, sequence: int) -> None:
    await until(lambda: projector.position >= sequence, f"the projection is at {sequence}")


def position_of(path: Path) -> int:
    """As the file says; 0 while there is none."""
    if not path.exists():
        return 0
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as database:
        try:
            query = "SELECT value FROM projection_metadata WHERE name = 'position'"
            row = database.execute(query).fetchone()
        except sqlite3.OperationalError:
            return 0
    return int(row[0]) if row else 0


@dataclass
class AdminProcess:
    process: ForkedProcess
    output: Path

    @property
    def said(self) -> str:
        return self.output.read_text(errors="replace")

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()


@contextmanager
def admin_process(url: str, path: Path) -> Iterator[AdminProcess]:
    """The admin runtime as it is installed, in a separate process, to be killed."""
    output = path.with_name("admin.printed")
    with output.open("ab") as said:
        process = fork(CLI, "admin", "serve", "--nats", url, "--db", str(path), stdout=said)
    try:
        yield AdminProcess(process, output)
    finally:
        process.kill()
        process.wait()
