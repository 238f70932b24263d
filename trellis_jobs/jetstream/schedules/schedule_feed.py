"""Reads the records of all schedules, and each change of them, without end."""

from __future__ import annotations

from contextlib import aclosing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from trellis_jobs.jetstream.client.stored_message import moment_of
from trellis_jobs.jetstream.control.record_feed import ReadingBegins, RecordFamily, RecordFeed
from trellis_jobs.jetstream.control.records import Record
from trellis_jobs.jetstream.schedules.records import address_of, read_schedule
from trellis_jobs.model import subjects

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from trellis_jobs.jetstream.client.connection import Connection
    from trellis_jobs.jetstream.client.pull_consumer import Delivered
    from trellis_jobs.jetstream.schedules.records import StoredSchedule
    from trellis_jobs.model.schedules.address import ScheduleAddress

_FAMILY: Final = RecordFamily(name="schedules", subject=subjects.ALL_SCHEDULES, resumes=False)


@dataclass(frozen=True, slots=True)
class ScheduleChange:
    """A record as it was written, or deleted."""

    address: ScheduleAddress
    stored: StoredSchedule


class ScheduleFeed:
    """`changes` yields None when the server confirmed that there is no change for now."""

    def __init__(self, connection: Connection) -> None:
        self._records = RecordFeed(connection, _FAMILY)

    async def changes(self) -> AsyncGenerator[ScheduleChange | ReadingBegins | None, None]:
        """Raises InfrastructureMissing when the stream does not exist."""
        async with aclosing(self._records.changes()) as changes:
            async for change in changes:
                if change is None or isinstance(change, ReadingBegins):
                    yield change
                elif (schedule := _read(change)) is not None:
                    yield schedule


def _read(delivered: Delivered) -> ScheduleChange | None:
    message, info = delivered
    address = address_of(message.subject)
    if address is None:
        return None
    stored_at = moment_of(info.stored_ns)
    record = Record(message.subject, info.stream_sequence, message.data, stored_at)
    return ScheduleChange(address, read_schedule(record, address))
