"""Records for coordination between processes: the newest value of a subject, compare-and-set.

The stream leader serves every read and write, so that no lagging replica misleads a reader.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import orjson

from trellis_jobs.contract.topology import CONTROL
from trellis_jobs.errors import InfrastructureMissing, NotConfirmed, RequestRefused
from trellis_jobs.jetstream.client import api, stored_message
from trellis_jobs.jetstream.client.connection import ConnectionLost, NoResponders
from trellis_jobs.wire import headers as h

if TYPE_CHECKING:
    from datetime import timedelta

    from trellis_jobs.jetstream.client.connection import Connection

_ACK_TIMEOUT: Final = 5.0
_WRITE_ATTEMPTS: Final = 20
_RETRY_DELAY: Final = 0.1
_MAX_CONCURRENT_READS: Final = 16
_REMEDY: Final = (
    "run `trellis-jobs infra apply`, or start the admin runtime with --provision, and let its user "
    f"reach {CONTROL} (`trellis-jobs permissions --admin`)"
)


class _NotWritten(Exception):
    """The record was not found after a write without a reply, so the write is repeated."""


@dataclass(frozen=True, slots=True)
class Record:
    """`revision` is 0 for a record that does not exist yet."""

    subject: str
    revision: int
    data: bytes


class ControlRecords:
    """Raises InfrastructureMissing, with the command to run, when the stream does not exist.

    `supports_ttl`: the server can expire a record by itself (2.11).
    """

    def __init__(self, connection: Connection, *, supports_ttl: bool) -> None:
        self._connection = connection
        self._supports_ttl = supports_ttl

    async def read(self, subject: str) -> Record | None:
        try:
            found = await stored_message.newest(self._connection, CONTROL, subject)
        except InfrastructureMissing:
            raise _missing() from None
        return None if found is None else Record(subject, found.sequence, found.data)

    async def subjects(self, under: str) -> list[str]:
        try:
            info = await api.request(
                self._connection, f"STREAM.INFO.{CONTROL}", {"subjects_filter": under}
            )
        except RequestRefused as refusal:
            if refusal.code == api.STREAM_NOT_FOUND:
                raise _missing() from None
            raise
        return sorted(info["state"].get("subjects") or ())

    async def read_all(self, subjects: list[str]) -> list[Record]:
        slots = asyncio.Semaphore(_MAX_CONCURRENT_READS)

        async def read(subject: str) -> Record | None:
            async with slots:
                return await self.read(subject)

        found = await asyncio.gather(*map(read, subjects))
        return [record for record in found if record is not None]

    async def write(self, record: Record, *, ttl: timedelta | None = None) -> int | None:
        """Returns the new revision, or None when another writer changed the record meanwhile.

        The server removes the record after `ttl`, unless it is written again. If the reply to a
        write is lost, the record is read before the write is repeated.
        """
        headers = {h.EXPECTED_SEQUENCE: str(record.revision)}
        if ttl is not None and self._supports_ttl:
            headers[h.TTL] = f"{round(ttl.total_seconds())}s"
        for _ in range(_WRITE_ATTEMPTS):
            try:
                return await self._write_once(record, headers)
            except (_NotWritten, NoResponders):
                await asyncio.sleep(_RETRY_DELAY)
        raise _missing()

    async def _write_once(self, record: Record, headers: dict[str, str]) -> int | None:
        """Raises _NotWritten or NoResponders when the write must be repeated."""
        try:
            reply = await self._connection.request(
                record.subject, record.data, headers=headers, timeout=_ACK_TIMEOUT
            )
        except ConnectionLost as error:
            if self._connection.is_closed:
                raise NotConfirmed(f"a write of {record.subject}", None) from error
            await self._connection.wait_until_connected()
            stored = await self.read(record.subject)
            if stored is not None and stored.data == record.data:
                return stored.revision
            raise _NotWritten from error
        ack = orjson.loads(reply.data)
        refusal = ack.get("error")
        if refusal is None:
            return int(ack["seq"])
        if int(refusal.get("err_code", 0)) == api.WRONG_LAST_SEQUENCE:
            return None
        raise _refused(record.subject, refusal)


def _refused(subject: str, refusal: dict[str, Any]) -> Exception:
    code = int(refusal.get("err_code", 0))
    if code == api.WRITE_IN_FLIGHT:
        return _NotWritten()
    return RequestRefused(subject, code, str(refusal.get("description", "")))


def _missing() -> InfrastructureMissing:
    return InfrastructureMissing(f"stream {CONTROL}", _REMEDY)
