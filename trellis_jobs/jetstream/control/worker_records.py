"""The records of worker processes in JOBS_CONTROL: read, and changed under compare-and-set."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from trellis_jobs.jetstream.control.records import ControlRecords, Record
from trellis_jobs.model import subjects
from trellis_jobs.model.subjects import WorkerSubject
from trellis_jobs.model.worker_record import WorkerRecord
from trellis_jobs.wire import worker_records as wire

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from trellis_jobs.jetstream.client.connection import Connection
    from trellis_jobs.jetstream.client.pub_ack import Refused

log = logging.getLogger(__name__)

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class StoredWorker:
    """`stored_at` is the server's time; it is not known of a record that this process wrote."""

    record: WorkerRecord
    revision: int
    stored_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class ListedWorkers:
    """The readable records, ordered by service and instance, and the server's time."""

    workers: list[StoredWorker]
    at: datetime


@dataclass(frozen=True, slots=True)
class UnreadableWorker:
    """Bytes under a worker's subject that are not a record of it."""

    subject: str
    revision: int
    reason: str


class WorkerRecords:
    def __init__(self, connection: Connection, *, supports_ttl: bool) -> None:
        self._supports_ttl = supports_ttl
        self._records = ControlRecords(connection, supports_ttl=supports_ttl)

    def over(self, connection: Connection) -> WorkerRecords:
        """Returns the same records over another connection."""
        return WorkerRecords(connection, supports_ttl=self._supports_ttl)

    async def write(self, record: WorkerRecord, revision: int) -> int | Refused:
        written = Record(_subject(record), revision, wire.encode(record))
        return await self._records.write(written, ttl=record.lifetime)

    async def read_after(
        self, conflict: Refused, record: WorkerRecord
    ) -> StoredWorker | UnreadableWorker | None:
        """Returns what another process wrote into the record, or None if the record is gone."""
        found = await self._records.read_after(conflict, _subject(record))
        return None if found is None else read_worker(found)

    async def all(self, service: str | None = None) -> list[StoredWorker]:
        """Returns the readable records, ordered by service and instance."""
        return (await self.listing(service)).workers

    async def listing(self, service: str | None = None) -> ListedWorkers:
        """Any replica may reply, because every write is guarded by the revision that was read."""
        under = subjects.ALL_WORKERS if service is None else subjects.workers_of_service(service)
        listed = await self._records.listing(under)
        found = map(read_worker, await self._records.newest_of_all(listed.subjects))
        return ListedWorkers([each for each in found if isinstance(each, StoredWorker)], listed.at)

    async def find(self, service: str, instance: str) -> StoredWorker | None:
        found = await self._records.newest(subjects.worker(service, instance))
        worker = None if found is None else read_worker(found)
        return worker if isinstance(worker, StoredWorker) else None

    async def change(
        self, stored: StoredWorker, move: Callable[[WorkerRecord], WorkerRecord | T]
    ) -> StoredWorker | T | None:
        """Apply a move, again whenever another process wrote in between.

        Returns the result of the move if it is not a record, and None if the record is gone.
        """
        current = stored
        while True:
            moved = move(current.record)
            if not isinstance(moved, WorkerRecord):
                return moved
            written = await self.write(moved, current.revision)
            if isinstance(written, int):
                return StoredWorker(moved, written)
            found = await self.read_after(written, current.record)
            if not isinstance(found, StoredWorker):
                return None
            current = found


def read_worker(record: Record) -> StoredWorker | UnreadableWorker:
    worker = subjects.parse(record.subject)
    if not isinstance(worker, WorkerSubject):
        return UnreadableWorker(record.subject, record.revision, "the subject names no worker")
    decoded = wire.decode(record.data, expected=worker)
    if isinstance(decoded, WorkerRecord):
        return StoredWorker(decoded, record.revision, record.stored_at)
    log.warning(
        "cannot read the worker record %s: %s",
        record.subject,
        decoded,
        extra={"subject": record.subject, "reason": decoded},
    )
    return UnreadableWorker(record.subject, record.revision, decoded)


def _subject(record: WorkerRecord) -> str:
    return subjects.worker(record.profile.service, record.profile.instance)
