"""Records for coordination between processes: the newest value of a subject, compare-and-set."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Final

from trellis_jobs.contract.topology import CONTROL
from trellis_jobs.errors import InfrastructureMissing, NotConfirmed, StreamMissing
from trellis_jobs.jetstream.client import api, stored_message
from trellis_jobs.jetstream.client.connection import ConnectionLost, NoResponders
from trellis_jobs.jetstream.client.pub_ack import Refused, read_pub_ack
from trellis_jobs.wire import headers as h

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from datetime import timedelta

    from trellis_jobs.jetstream.client.connection import Connection

_ACK_TIMEOUT: Final = 5.0
_WRITE_ATTEMPTS: Final = 20
_READ_ATTEMPTS: Final = 20
_RETRY_DELAY: Final = 0.1
_MAX_CONCURRENT_READS: Final = 16
_REMEDY: Final = (
    "run `trellis-jobs infra apply`, or start the admin runtime with --provision, and let its user "
    f"reach {CONTROL} (`trellis-jobs permissions --admin`)"
)


class _NotConfirmed(Exception):
    """The server did not confirm a write, so the write is repeated."""


@dataclass(frozen=True, slots=True)
class Record:
    """`revision` is 0 for a record that does not exist yet; `stored_at` is the server's time."""

    subject: str
    revision: int
    data: bytes
    stored_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Listing:
    """Subjects of records, and the server's time when it listed them."""

    subjects: list[str]
    at: datetime


class ControlRecords:
    """Raises InfrastructureMissing, with the command to run, when the stream does not exist.

    `supports_ttl`: the server can expire a record by itself (2.11).
    """

    def __init__(self, connection: Connection, *, supports_ttl: bool) -> None:
        self._connection = connection
        self._supports_ttl = supports_ttl

    async def read(self, subject: str) -> Record | None:
        """Asks the stream leader, so that no lagging replica misleads a reader."""
        try:
            found = await stored_message.newest(self._connection, CONTROL, subject)
        except InfrastructureMissing:
            raise _missing() from None
        return None if found is None else Record(subject, found.sequence, found.data)

    async def read_after(self, conflict: Refused, subject: str) -> Record | None:
        """Reads a record after a conflict, with the permission to read this subject only.

        Any replica may reply, so a reply that is older than the conflict is not used. Returns None
        if the record is gone.
        """
        for _ in range(_READ_ATTEMPTS if conflict.last_sequence else 0):
            found = await self.newest(subject)
            if found is not None and found.revision >= conflict.last_sequence:
                return found
            await asyncio.sleep(_RETRY_DELAY)
        return None

    async def newest(self, subject: str) -> Record | None:
        """Reads a record from any replica, with the permission to read this subject only."""
        try:
            found = await api.newest(self._connection, CONTROL, subject)
        except (ConnectionLost, NoResponders) as error:
            raise NotConfirmed(f"a read of {subject}", api.TIMEOUT) from error
        if found.status is not None:
            return None
        return Record(subject, api.sequence_of(found), found.data, api.stored_at(found))

    async def subjects(self, under: str) -> list[str]:
        return (await self.listing(under)).subjects

    async def listing(self, under: str) -> Listing:
        try:
            info = await api.request(
                self._connection, f"STREAM.INFO.{CONTROL}", {"subjects_filter": under}
            )
        except StreamMissing:
            raise _missing() from None
        found = sorted(info["state"].get("subjects") or ())
        return Listing(found, datetime.fromisoformat(str(info["ts"])))

    async def read_all(self, subjects: list[str]) -> list[Record]:
        return await _read_each(self.read, subjects)

    async def newest_of_all(self, subjects: list[str]) -> list[Record]:
        """Like `newest`, for several records."""
        return await _read_each(self.newest, subjects)

    async def write(self, record: Record, *, ttl: timedelta | None = None) -> int | Refused:
        """Returns the new revision, or a conflict when another process has written meanwhile.

        The server removes the record after `ttl`, unless it is written again. A write whose reply
        is lost is repeated with the same guard; a conflict with the same bytes is the first copy.
        """
        headers = {h.EXPECTED_SEQUENCE: str(record.revision)}
        if ttl is not None and self._supports_ttl:
            headers[h.TTL] = f"{round(ttl.total_seconds())}s"
        is_repeated = False
        for _ in range(_WRITE_ATTEMPTS):
            try:
                written = await self._write_once(record, headers)
            except NoResponders:
                await asyncio.sleep(_RETRY_DELAY)
            except _NotConfirmed:
                is_repeated = True
            else:
                if is_repeated and isinstance(written, Refused):
                    return await self._own_copy(record, written)
                return written
        raise _missing()

    async def _own_copy(self, record: Record, conflict: Refused) -> int | Refused:
        stored = await self.read_after(conflict, record.subject)
        is_own = stored is not None and stored.data == record.data
        return stored.revision if stored is not None and is_own else conflict

    async def _write_once(self, record: Record, headers: dict[str, str]) -> int | Refused:
        """Raises _NotConfirmed when the write may have been stored, and must be repeated."""
        try:
            reply = await self._connection.request(
                record.subject, record.data, headers=headers, timeout=_ACK_TIMEOUT
            )
        except ConnectionLost as error:
            if self._connection.is_closed:
                raise NotConfirmed(f"a write of {record.subject}", None) from error
            await self._connection.wait_until_connected()
            raise _NotConfirmed from error
        written = read_pub_ack(record.subject, reply, CONTROL)
        if written is None:
            await asyncio.sleep(_RETRY_DELAY)
            raise _NotConfirmed
        return written


async def _read_each(
    read: Callable[[str], Awaitable[Record | None]], subjects: list[str]
) -> list[Record]:
    slots = asyncio.Semaphore(_MAX_CONCURRENT_READS)

    async def read_one(subject: str) -> Record | None:
        async with slots:
            return await read(subject)

    found = await asyncio.gather(*map(read_one, subjects))
    return [record for record in found if record is not None]


def _missing() -> InfrastructureMissing:
    return InfrastructureMissing(f"stream {CONTROL}", _REMEDY)
