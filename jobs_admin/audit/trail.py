"""Writes what operators did into JOBS_CONTROL, one record for each action (decision record 20)."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from trellis_jobs.errors import JobsError
from trellis_jobs.jetstream.client.connection import ConnectionLost, NoResponders
from trellis_jobs.jetstream.control.records import Record
from trellis_jobs.model import subjects

if TYPE_CHECKING:
    from collections.abc import Callable

    from jobs_admin.api.views.audit import AuditedChange
    from trellis_jobs.jetstream.control.records import ControlRecords
    from trellis_jobs.model.audit_recorder import AuditRecorder

log = logging.getLogger(__name__)

# How long the server keeps a record.
RETENTION: Final = timedelta(days=90)
# A change is not held up for longer by a record that cannot be written.
WRITE_TIMEOUT: Final = 3.0


@dataclass(frozen=True, slots=True)
class AuditTrail:
    records: ControlRecords
    recorder: AuditRecorder
    new_id: Callable[[], str]

    async def record(self, change: AuditedChange) -> str | None:
        """Returns why the change could not be recorded, which is logged, or None."""
        subject = subjects.audit(self.recorder, self.new_id())
        try:
            async with asyncio.timeout(WRITE_TIMEOUT):
                await self.records.write(Record(subject, 0, change.encode()), ttl=RETENTION)
        except TimeoutError:
            problem = f"the server did not confirm it within {WRITE_TIMEOUT:g} s"
        except (JobsError, ConnectionLost, NoResponders) as error:
            problem = str(error)
        else:
            return None
        log.error(
            "cannot record that %s did %s to %s %s: %s",
            change.by,
            change.verb,
            change.target,
            change.id or change.type or change.service,
            problem,
            extra={"change": change.encode().decode(), "error": problem},
        )
        return problem
