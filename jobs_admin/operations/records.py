"""Operations as records of JOBS_CONTROL: read, listed, and changed under compare-and-set."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from pydantic import ValidationError

from jobs_admin.operations.operation import Operation
from trellis_jobs.jetstream.client.pub_ack import Refused
from trellis_jobs.jetstream.control.records import Record
from trellis_jobs.model import subjects

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from trellis_jobs.jetstream.control.records import ControlRecords

log = logging.getLogger(__name__)

# How long finished operations are kept.
RETENTION: Final = timedelta(days=7)


@dataclass(frozen=True, slots=True)
class Stored:
    operation: Operation
    revision: int

    @property
    def subject(self) -> str:
        return subjects.operation(self.operation.id)


class OperationRecords:
    def __init__(self, records: ControlRecords) -> None:
        self._records = records

    async def create(self, operation: Operation) -> Stored:
        stored = await self._write(operation, 0)
        if stored is None:
            raise RuntimeError(f"operation {operation.id} exists")
        return stored

    async def read(self, operation_id: str) -> Stored | None:
        record = await self._records.read(subjects.operation(operation_id))
        return None if record is None else _stored(record)

    async def subjects(self) -> set[str]:
        """Returns the subjects of all records."""
        return set(await self._records.subjects(subjects.ALL_OPERATIONS))

    async def all(self) -> list[Stored]:
        """Returns every operation, the newest first."""
        return await self.read_many(await self.subjects())

    async def read_many(self, names: Iterable[str]) -> list[Stored]:
        """Returns the operations under these subjects, the newest first."""
        found = map(_stored, await self._records.read_all(list(names)))
        known = [stored for stored in found if stored is not None]
        return sorted(known, key=lambda stored: stored.operation.created_at, reverse=True)

    async def write(self, operation: Operation, on: Stored) -> Stored | None:
        """Returns None when another process has written on top of that revision."""
        return await self._write(operation, on.revision)

    async def change(
        self, stored: Stored, move: Callable[[Operation], Operation | None]
    ) -> Stored | None:
        """Apply a move, again whenever another process wrote in between.

        Returns None when the move returns None, or the record has vanished.
        """
        current: Stored | None = stored
        while current is not None:
            moved = move(current.operation)
            if moved is None:
                return None
            written = await self._write(moved, current.revision)
            if written is not None:
                return written
            current = await self.read(stored.operation.id)
        return None

    async def _write(self, operation: Operation, revision: int) -> Stored | None:
        data = operation.model_dump_json(by_alias=True, exclude_none=True).encode()
        record = Record(subjects.operation(operation.id), revision, data)
        written = await self._records.write(record, ttl=RETENTION if operation.is_over else None)
        return None if isinstance(written, Refused) else Stored(operation, written)


def _stored(record: Record) -> Stored | None:
    """Return None for a record that this version cannot read."""
    try:
        return Stored(Operation.model_validate_json(record.data), record.revision)
    except ValidationError as error:
        log.warning(
            "cannot read the operation record %s: %s",
            record.subject,
            error,
            extra={"subject": record.subject, "reason": str(error)},
        )
        return None
