"""Reads the records of all worker processes, and each change of them, without end."""

from __future__ import annotations

from contextlib import aclosing
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from trellis_jobs.contract.topology import CONTROL
from trellis_jobs.jetstream.client import api
from trellis_jobs.jetstream.client.pull_consumer import (
    EphemeralConsumer,
    PullEnd,
    open_ephemeral_consumer,
)
from trellis_jobs.jetstream.client.resume_after_disconnect import resume_after_disconnect
from trellis_jobs.jetstream.control.records import Record
from trellis_jobs.jetstream.control.worker_records import StoredWorker, read_worker
from trellis_jobs.model import subjects

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from trellis_jobs.jetstream.client.connection import Connection
    from trellis_jobs.jetstream.client.pull_consumer import Delivered

_PULL_SIZE: Final = 1_000
# So often the server confirms that there is no change.
CONFIRM_INTERVAL: Final = 1.0
_CONSUMER_IDLE_TIMEOUT: Final = timedelta(minutes=1)


@dataclass(frozen=True, slots=True)
class WorkerChange:
    """A record as it was written; `stored_ns` is the server's time."""

    worker: StoredWorker
    stored_ns: int


@dataclass(frozen=True, slots=True)
class ReadingBegins:
    """Nothing is known about the time before: the reader was not connected, or has just started.

    `is_complete`: all records follow, because the stream is another one than before.
    """

    is_complete: bool


class WorkerFeed:
    """`changes` yields None when the server confirmed that there is no change for now."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._position = 0
        self._created = ""

    async def changes(self) -> AsyncGenerator[WorkerChange | ReadingBegins | None, None]:
        """Raises InfrastructureMissing when the stream does not exist."""
        reading = resume_after_disconnect(
            self._connection,
            "the records of workers",
            self._from_one_consumer,
            retry_if_missing=lambda: False,
        )
        async with aclosing(reading) as changes:
            async for change in changes:
                yield change

    async def _from_one_consumer(
        self,
    ) -> AsyncGenerator[WorkerChange | ReadingBegins | None, None]:
        info = await api.request(self._connection, f"STREAM.INFO.{CONTROL}")
        is_complete = info["created"] != self._created
        if is_complete:
            self._position, self._created = 0, info["created"]
        consumer = EphemeralConsumer(
            stream=CONTROL,
            name_prefix="workers",
            start_sequence=self._position + 1,
            subject=subjects.ALL_WORKERS,
            idle_timeout=_CONSUMER_IDLE_TIMEOUT,
            delete_after_use=True,
        )
        async with open_ephemeral_consumer(self._connection, consumer) as pull:
            yield ReadingBegins(is_complete)
            while True:
                if pull.outstanding == 0:
                    await pull.request(_PULL_SIZE, wait=True, seconds=CONFIRM_INTERVAL)
                received = await pull.next()
                if isinstance(received, PullEnd):
                    yield None
                elif (change := self._read(received)) is not None:
                    yield change

    def _read(self, delivered: Delivered) -> WorkerChange | None:
        """Returns None for bytes that are not a record, which are logged."""
        message, info = delivered
        self._position = info.stream_sequence
        worker = read_worker(Record(message.subject, info.stream_sequence, message.data))
        return WorkerChange(worker, info.stored_ns) if isinstance(worker, StoredWorker) else None
