"""The records of schedules in JOBS_CONTROL: read, listed, and changed under compare-and-set."""

from __future__ import annotations

import logging
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from trellis_jobs.contract.topology import CONTROL
from trellis_jobs.jetstream.client.pull_consumer import EphemeralConsumer, open_ephemeral_consumer
from trellis_jobs.jetstream.control.records import ControlRecords, Record
from trellis_jobs.model import subjects
from trellis_jobs.model.schedules.address import ScheduleAddress
from trellis_jobs.model.schedules.record import ScheduleRecord
from trellis_jobs.model.values import Value
from trellis_jobs.wire import schedules as wire

if TYPE_CHECKING:
    from datetime import datetime

    from trellis_jobs.jetstream.client.connection import Connection
    from trellis_jobs.jetstream.client.pub_ack import Refused

log = logging.getLogger(__name__)

# An empty record stands for a deleted schedule until the server removes it.
_DELETED: Final = b""
_DELETED_LIFETIME: Final = timedelta(seconds=1)
_LIST_IDLE_TIMEOUT: Final = timedelta(seconds=30)


class StoredSchedule(Value, frozen=True):
    """`record` is None if the schedule does not exist, or if its record cannot be read.

    `revision` guards the next write; it is 0 if the server has no record. `problem` is why the
    record cannot be read. `stored_at` is the server's time of the last change, if it is known.
    """

    record: ScheduleRecord | None
    revision: int = 0
    problem: str | None = None
    stored_at: datetime | None = None

    @property
    def exists(self) -> bool:
        return self.record is not None or self.problem is not None


class ScheduleRecords:
    def __init__(self, connection: Connection, *, supports_ttl: bool) -> None:
        self._connection = connection
        self._records = ControlRecords(connection, supports_ttl=supports_ttl)

    async def find(self, address: ScheduleAddress) -> StoredSchedule:
        found = await self._records.newest(_subject(address))
        return StoredSchedule(None) if found is None else read_schedule(found, address)

    async def find_after(self, conflict: Refused, address: ScheduleAddress) -> StoredSchedule:
        """Reads a record that is at least as new as the conflict."""
        found = await self._records.read_after(conflict, _subject(address))
        return StoredSchedule(None) if found is None else read_schedule(found, address)

    async def write(self, record: ScheduleRecord, revision: int) -> int | Refused:
        written = Record(_subject(record.address), revision, wire.encode(record))
        return await self._records.write(written)

    async def delete(self, address: ScheduleAddress, revision: int) -> int | Refused:
        deleted = Record(_subject(address), revision, _DELETED)
        return await self._records.write(deleted, ttl=_DELETED_LIFETIME)

    async def position(self) -> int:
        """Returns the sequence of the newest change of any schedule; 0 if there is none."""
        found = await self._records.newest(subjects.ALL_SCHEDULES)
        return 0 if found is None else found.revision

    async def all(self, service: str | None = None) -> list[ScheduleRecord]:
        """Returns the readable records, ordered by service, queue and name."""
        consumer = EphemeralConsumer(
            stream=CONTROL,
            name_prefix="schedules",
            subject=subjects.schedules_of_service(service or "*"),
            idle_timeout=_LIST_IDLE_TIMEOUT,
            delete_after_use=False,
        )
        found: dict[ScheduleAddress, ScheduleRecord] = {}
        async with open_ephemeral_consumer(self._connection, consumer) as pull:
            async for message, info in pull.drain():
                address = address_of(message.subject)
                if address is None:
                    continue
                record = Record(message.subject, info.stream_sequence, message.data)
                stored = read_schedule(record, address)
                found.pop(address, None)
                if stored.record is not None:
                    found[address] = stored.record
        return sorted(found.values(), key=lambda record: str(record.address))


def _subject(address: ScheduleAddress) -> str:
    return subjects.schedule(address.service, address.job_type, address.schedule)


def address_of(subject: str) -> ScheduleAddress | None:
    parsed = subjects.schedule_address(subject)
    if parsed is None:
        return None
    return ScheduleAddress(parsed.service, parsed.job_type, parsed.name)


def read_schedule(found: Record, address: ScheduleAddress) -> StoredSchedule:
    if found.data == _DELETED:
        return StoredSchedule(None, found.revision, stored_at=found.stored_at)
    record = wire.decode(found.data, expected=address)
    if isinstance(record, ScheduleRecord):
        return StoredSchedule(record, found.revision, stored_at=found.stored_at)
    log.warning("the record of schedule %s cannot be read: %s", address, record)
    return StoredSchedule(None, found.revision, record, found.stored_at)
