"""A reader that follows the log from its start, on a connection without faults."""

from __future__ import annotations

from contextlib import aclosing
from dataclasses import dataclass, field

from tests.chaos.observed import glimpse
from trellis_jobs.jetstream.client.connection import Connection
from trellis_jobs.jetstream.log.feed import LogFeed, LogMessage, LogPosition, LogReplaced
from trellis_jobs.model.job import Entry
from trellis_jobs.wire import log as wire


def entry_in(message: LogMessage) -> Entry | None:
    """None: it is no event, or none that can be read."""
    read = wire.read(message.subject, message.sequence, message.data, message.headers)
    return read if isinstance(read, Entry) else None


@dataclass
class Witness:
    """`live`: jobs that are not over, as far as it has read."""

    glimpsed: dict[int, str] = field(default_factory=dict)
    live: set[str] = field(default_factory=set)
    jobs: set[str] = field(default_factory=set)
    position: int = 0

    async def watch(self, connection: Connection) -> None:
        while True:
            try:
                async with aclosing(LogFeed(connection).batches(LogPosition())) as batches:
                    async for batch in batches:
                        for message in batch:
                            self._see(message)
            except LogReplaced:
                # It lost what it had: what was glimpsed at that place tells the checker.
                self.live.clear()

    def _see(self, message: LogMessage) -> None:
        self.position = message.sequence
        entry = entry_in(message)
        if entry is None or entry.status is None:
            return
        job_id = entry.event.job.job_id
        self.glimpsed.setdefault(entry.sequence, glimpse(entry))
        self.jobs.add(job_id)
        if entry.status.is_over:
            self.live.discard(job_id)
        else:
            self.live.add(job_id)
