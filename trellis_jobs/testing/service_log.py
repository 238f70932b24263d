"""Reads all jobs of one service from its log."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Final

from trellis_jobs.contract.topology import LOG
from trellis_jobs.jetstream.client.pull_consumer import EphemeralConsumer, open_ephemeral_consumer
from trellis_jobs.jetstream.log.feed import log_message
from trellis_jobs.model import subjects
from trellis_jobs.model.job import Entry, Job, reduce
from trellis_jobs.wire import log as wire

if TYPE_CHECKING:
    from trellis_jobs.jetstream.client.connection import Connection
    from trellis_jobs.model.identity import JobAddress

_IDLE: Final = timedelta(seconds=1)


class ServiceLog:
    """Each call of `read_new` reads the events since the previous call."""

    def __init__(self, connection: Connection, service: str) -> None:
        self.jobs: dict[JobAddress, Job] = {}
        self._connection = connection
        self._service = service
        self._position = 0

    async def read_new(self) -> list[Entry]:
        wanted = EphemeralConsumer(
            stream=LOG,
            name_prefix="test",
            start_sequence=self._position + 1,
            subject=subjects.of_service(self._service),
            idle_timeout=_IDLE,
            delete_after_use=True,
        )
        async with open_ephemeral_consumer(self._connection, wanted) as pull:
            messages = [log_message(*each) async for each in pull.drain()]
        read = [wire.read(m.subject, m.sequence, m.data, m.headers) for m in messages]
        entries = [entry for entry in read if isinstance(entry, Entry)]
        for entry in entries:
            self._position = entry.sequence
            job = reduce(self.jobs.get(entry.event.job), entry).job
            if job is not None:
                self.jobs[entry.event.job] = job
        return entries
