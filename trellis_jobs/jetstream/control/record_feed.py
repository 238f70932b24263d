"""Reads all records under a subject, and each change of them, without end."""

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

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from trellis_jobs.jetstream.client.connection import Connection
    from trellis_jobs.jetstream.client.pull_consumer import Delivered

_PULL_SIZE: Final = 1_000
# So often the server confirms that there is no change.
CONFIRM_INTERVAL: Final = 1.0
_CONSUMER_IDLE_TIMEOUT: Final = timedelta(minutes=1)


@dataclass(frozen=True, slots=True)
class ReadingBegins:
    """Nothing is known about the time before: the reader was not connected, or has just started.

    `is_complete`: all records follow.
    """

    is_complete: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordFamily:
    """Which records to read. `name` is also the prefix of the consumer's name.

    `resumes`: after an outage only the changes are read. Without it all records are read again:
    records of this family may be deleted, and the server does not say later which were.
    """

    name: str
    subject: str
    resumes: bool


class RecordFeed:
    """`changes` yields None when the server confirmed that there is no change for now.

    It does so when it has read all records, and then at least every CONFIRM_INTERVAL seconds.
    """

    def __init__(self, connection: Connection, family: RecordFamily) -> None:
        self._connection = connection
        self._family = family
        self._position = 0
        self._created = ""

    async def changes(self) -> AsyncGenerator[Delivered | ReadingBegins | None, None]:
        """Raises InfrastructureMissing when the stream does not exist."""
        reading = resume_after_disconnect(
            self._connection,
            f"the records of {self._family.name}",
            self._from_one_consumer,
            retry_if_missing=lambda: False,
        )
        async with aclosing(reading) as changes:
            async for change in changes:
                yield change

    async def _from_one_consumer(self) -> AsyncGenerator[Delivered | ReadingBegins | None, None]:
        is_complete = await self._begin()
        consumer = EphemeralConsumer(
            stream=CONTROL,
            name_prefix=self._family.name,
            start_sequence=self._position + 1,
            subject=self._family.subject,
            idle_timeout=_CONSUMER_IDLE_TIMEOUT,
            delete_after_use=True,
        )
        async with open_ephemeral_consumer(self._connection, consumer) as pull:
            yield ReadingBegins(is_complete)
            is_confirmed = pull.pending == 0
            if is_confirmed:
                yield None
            while True:
                if pull.outstanding == 0:
                    await pull.request(_PULL_SIZE, wait=True, seconds=CONFIRM_INTERVAL)
                received = await pull.next()
                if isinstance(received, PullEnd):
                    if received is PullEnd.NOTHING_MORE:
                        yield None
                    continue
                _, info = received
                self._position = info.stream_sequence
                yield received
                if not is_confirmed and info.pending == 0:
                    is_confirmed = True
                    yield None

    async def _begin(self) -> bool:
        """Returns whether all records are read, because the stream is another one than before."""
        info = await api.request(self._connection, f"STREAM.INFO.{CONTROL}")
        if self._family.resumes and info["created"] == self._created:
            return False
        self._position, self._created = 0, info["created"]
        return True
