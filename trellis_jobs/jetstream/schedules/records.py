"""The records of schedules in JOBS_CONTROL: read, listed, and changed under compare-and-set."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from trellis_jobs.contract.topology import CONTROL
from trellis_jobs.errors import NotConfirmed, ScheduleRefused
from trellis_jobs.jetstream.client.connection import ConnectionLost
from trellis_jobs.jetstream.client.pub_ack import Refused
from trellis_jobs.jetstream.client.pull_consumer import EphemeralConsumer, open_ephemeral_consumer
from trellis_jobs.jetstream.control.records import ControlRecords, Record
from trellis_jobs.model import subjects
from trellis_jobs.model.bounded_dict import BoundedDict
from trellis_jobs.model.schedules.address import ScheduleAddress
from trellis_jobs.model.schedules.record import ScheduleRecord
from trellis_jobs.model.values import Value
from trellis_jobs.wire import schedules as wire
from trellis_jobs.wire.fields import dumps

if TYPE_CHECKING:
    from datetime import datetime

    from trellis_jobs.jetstream.client.connection import Connection
    from trellis_jobs.model.schedules.definition import ScheduleDefinition

log = logging.getLogger(__name__)

# An empty record stands for a deleted schedule until the server removes it.
_DELETED: Final = b""
_DELETED_LIFETIME: Final = timedelta(seconds=1)
_LIST_IDLE_TIMEOUT: Final = timedelta(seconds=30)
_LIST_ATTEMPTS: Final = 5
# Writes of this process that are remembered.
_MAX_WRITTEN: Final = 1_000


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


@dataclass(frozen=True, slots=True)
class _Written:
    """The last write of a record by this process."""

    revision: int
    is_deletion: bool = False

    def is_stale(self, revision: int | None) -> bool:
        """Whether a replica replied that does not have this write yet; None is no record at all.

        The server removes the record of a deleted schedule, so no record is right after a deletion.
        """
        return not self.is_deletion if revision is None else revision < self.revision


class ScheduleRecords:
    """Any replica may reply to a read. A reply is not used if it is older than an own write."""

    def __init__(self, connection: Connection, *, supports_ttl: bool) -> None:
        self._connection = connection
        self._records = ControlRecords(connection, supports_ttl=supports_ttl)
        self._written: BoundedDict[ScheduleAddress, _Written] = BoundedDict(_MAX_WRITTEN)

    async def find(self, address: ScheduleAddress) -> StoredSchedule:
        found = await self._records.newest(_subject(address))
        written = self._written.get(address)
        if written is not None and written.is_stale(None if found is None else found.revision):
            found = await self._read_written(address, written)
        return StoredSchedule(None) if found is None else read_schedule(found, address)

    async def _read_written(self, address: ScheduleAddress, written: _Written) -> Record | None:
        """Waits for the replicas. Returns None if the record is gone.

        Forgets the write if it does not appear: another process may have deleted the schedule, or
        an operator the stream.
        """
        subject = _subject(address)
        found = await self._records.read_after(Refused(written.revision), subject)
        if found is None:
            self._written.pop(address, None)
            if await self._records.newest(subject) is not None:
                raise NotConfirmed(f"a read of schedule {address}", None)
        return found

    async def find_after(self, conflict: Refused, address: ScheduleAddress) -> StoredSchedule:
        """Reads a record that is at least as new as the conflict."""
        found = await self._records.read_after(conflict, _subject(address))
        return StoredSchedule(None) if found is None else read_schedule(found, address)

    def check_size(self, address: ScheduleAddress, definition: ScheduleDefinition) -> None:
        """Raises ScheduleRefused if the record would have no room for jobs and runs."""
        size = len(dumps(wire.definition_to_json(definition)))
        limit = self._connection.max_payload // 2
        if size > limit:
            raise ScheduleRefused(
                str(address),
                f"its payload and options have {size:,} bytes, and {limit:,} are possible, half of "
                "the server's max_payload: put a reference to larger data into the payload",
            )

    async def write(self, record: ScheduleRecord, revision: int) -> int | Refused:
        encoded = Record(_subject(record.address), revision, wire.encode(record))
        written = await self._records.write(encoded)
        if not isinstance(written, Refused):
            self._written[record.address] = _Written(written)
        return written

    async def delete(self, address: ScheduleAddress, revision: int) -> int | Refused:
        empty = Record(_subject(address), revision, _DELETED)
        deleted = await self._records.write(empty, ttl=_DELETED_LIFETIME)
        if not isinstance(deleted, Refused):
            self._written[address] = _Written(deleted, is_deletion=True)
        return deleted

    async def position(self) -> int:
        """Returns the sequence of the newest change of any schedule; 0 if there is none."""
        found = await self._records.newest(subjects.ALL_SCHEDULES)
        return 0 if found is None else found.revision

    async def all(self, service: str | None = None) -> list[ScheduleRecord]:
        """Returns the readable records, ordered by service, queue and name."""
        found = await self._list(service)
        await self._replace_stale(found, service)
        records = [stored.record for stored in found.values() if stored.record is not None]
        return sorted(records, key=lambda record: str(record.address))

    async def _list(self, service: str | None) -> dict[ScheduleAddress, StoredSchedule]:
        """Reads again if the read broke off, or if it may have missed a record.

        A record that is written meanwhile moves to the end, and may be delivered twice instead of
        another one. Then there are fewer records than messages.
        """
        found: dict[ScheduleAddress, StoredSchedule] | None = None
        for _ in range(_LIST_ATTEMPTS):
            try:
                found, pending = await self._list_once(service)
            except ConnectionLost:
                if self._connection.is_closed:
                    break
                await self._connection.wait_until_connected()
            else:
                if len(found) >= pending:
                    return found
        if found is None:
            raise NotConfirmed("a list of schedules", None)
        return found

    async def _list_once(
        self, service: str | None
    ) -> tuple[dict[ScheduleAddress, StoredSchedule], int]:
        """Returns the number of messages that there were when it began, too."""
        consumer = EphemeralConsumer(
            stream=CONTROL,
            name_prefix="schedules",
            subject=subjects.schedules_of_service(service or "*"),
            idle_timeout=_LIST_IDLE_TIMEOUT,
            delete_after_use=False,
        )
        found: dict[ScheduleAddress, StoredSchedule] = {}
        async with open_ephemeral_consumer(self._connection, consumer) as pull:
            async for message, info in pull.drain():
                address = address_of(message.subject)
                if address is not None:
                    record = Record(message.subject, info.stream_sequence, message.data)
                    found[address] = read_schedule(record, address)
            return found, pull.pending

    async def _replace_stale(
        self, found: dict[ScheduleAddress, StoredSchedule], service: str | None
    ) -> None:
        for address, written in [*self._written.items()]:
            stored = found.get(address)
            is_listed = service in (None, address.service)
            if is_listed and written.is_stale(None if stored is None else stored.revision):
                found[address] = await self.find(address)


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
