"""The records of what operators did, as far as this admin runtime keeps them in memory."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from contextlib import aclosing
from typing import TYPE_CHECKING, Final

from pydantic import ValidationError

from jobs_admin.api.views.audit import AuditedChange, AuditEntry, AuditSource
from jobs_admin.audit.trail import RETENTION
from trellis_jobs.errors import InfrastructureMissing, JobsError, NotPermitted
from trellis_jobs.jetstream.client.stored_message import moment_of
from trellis_jobs.jetstream.control.record_feed import ReadingBegins, RecordFamily, RecordFeed
from trellis_jobs.model import subjects

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from trellis_jobs.jetstream.client.connection import Connection
    from trellis_jobs.jetstream.client.pull_consumer import Delivered
    from trellis_jobs.jetstream.control.records import ControlRecords

log = logging.getLogger(__name__)

# Of more records than these, the oldest are left out.
MAX_RECORDS: Final = 50_000
_FAMILY: Final = RecordFamily(name="audit", subject=subjects.ALL_AUDIT, resumes=True)
_RETRY_DELAY: Final = 10.0
_TIMEOUT: Final = 3.0


class AuditRegistry:
    """Records are written once, so that a copy of them only grows, and ages."""

    def __init__(self) -> None:
        self._entries: deque[AuditEntry] = deque(maxlen=MAX_RECORDS)
        self._position = 0
        self._is_complete = False
        self._problem: str | None = None
        self._changed = asyncio.Event()

    async def run(self, connection: Connection) -> None:
        """Keeps the registry current."""
        feed = RecordFeed(connection, _FAMILY)
        while True:
            try:
                async with aclosing(feed.changes()) as changes:
                    async for change in changes:
                        self.apply(change)
            except (InfrastructureMissing, NotPermitted) as error:
                if self._problem is None:
                    log.warning(
                        "the records of what operators did cannot be read: %s",
                        error,
                        extra={"error": str(error)},
                    )
                self._problem = str(error)
                await asyncio.sleep(_RETRY_DELAY)

    def apply(self, change: Delivered | ReadingBegins | None) -> None:
        if isinstance(change, ReadingBegins):
            if change.is_complete:
                self._entries.clear()
                self._position, self._is_complete = 0, False
            return
        if change is None:
            self._is_complete, self._problem = True, None
        else:
            self._take(change)
        self._changed.set()
        self._changed = asyncio.Event()

    def _take(self, delivered: Delivered) -> None:
        message, info = delivered
        self._position = info.stream_sequence
        entry = _entry(message.subject, message.data, moment_of(info.stored_ns))
        if entry is not None:
            self._entries.append(entry)

    async def until_current(self, records: ControlRecords) -> str | None:
        """Waits for all records that are stored by now. Returns why it cannot be done, or None."""
        try:
            async with asyncio.timeout(_TIMEOUT):
                newest = await records.newest(subjects.ALL_AUDIT)
                stored = newest.revision if newest is not None else 0
                while self._problem is None and not self._is_current(stored):
                    await self._changed.wait()
        except TimeoutError:
            return self._problem or "the server is slow"
        except JobsError as error:
            return self._problem or str(error)
        return self._problem

    def _is_current(self, position: int) -> bool:
        return self._is_complete and self._position >= position

    def newest_first(self, now: datetime) -> Iterator[AuditEntry]:
        """Without records that the server has removed by now, of which it does not inform."""
        return (entry for entry in reversed(self._entries) if now - entry.at <= RETENTION)


def _entry(subject: str, data: bytes, stored_at: datetime) -> AuditEntry | None:
    """Returns None for a record that this version cannot read."""
    recorder = subjects.audit_recorder(subject)
    if recorder is None:
        return None
    try:
        change = AuditedChange.model_validate_json(data)
    except ValidationError as error:
        log.warning(
            "cannot read the record %s of what an operator did: %s",
            subject,
            error,
            extra={"subject": subject, "reason": str(error)},
        )
        return None
    fields = change.model_dump(exclude_none=True)
    return AuditEntry(**fields, at=stored_at, source=AuditSource(recorder.value))
