"""Reads the records of all worker processes, and each change of them, without end."""

from __future__ import annotations

from contextlib import aclosing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from trellis_jobs.jetstream.control.record_feed import ReadingBegins, RecordFamily, RecordFeed
from trellis_jobs.jetstream.control.records import Record
from trellis_jobs.jetstream.control.worker_records import StoredWorker, read_worker
from trellis_jobs.model import subjects

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from trellis_jobs.jetstream.client.connection import Connection
    from trellis_jobs.jetstream.client.pull_consumer import Delivered

_FAMILY: Final = RecordFamily(name="workers", subject=subjects.ALL_WORKERS, resumes=True)


@dataclass(frozen=True, slots=True)
class WorkerChange:
    """A record as it was written; `stored_ns` is the server's time."""

    worker: StoredWorker
    stored_ns: int


class WorkerFeed:
    """`changes` yields None when the server confirmed that there is no change for now."""

    def __init__(self, connection: Connection) -> None:
        self._records = RecordFeed(connection, _FAMILY)

    async def changes(self) -> AsyncGenerator[WorkerChange | ReadingBegins | None, None]:
        """Raises InfrastructureMissing when the stream does not exist."""
        async with aclosing(self._records.changes()) as changes:
            async for change in changes:
                if change is None or isinstance(change, ReadingBegins):
                    yield change
                elif (worker := _read(change)) is not None:
                    yield worker


def _read(delivered: Delivered) -> WorkerChange | None:
    """Returns None for bytes that are not a record, which are logged."""
    message, info = delivered
    worker = read_worker(Record(message.subject, info.stream_sequence, message.data))
    return WorkerChange(worker, info.stored_ns) if isinstance(worker, StoredWorker) else None
