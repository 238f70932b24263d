"""Brings the schedules of a service in line with its contract when a worker process starts.

A declared schedule is made or changed, and one that the contract does not declare any more is
removed. Schedules that were made at run time are left alone. If they waited for a process that
knows their queue, their alarms are published again.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Final

from trellis_jobs.errors import JobsError, ScheduleRefused
from trellis_jobs.jetstream.client.connection import ConnectionLost
from trellis_jobs.jetstream.schedules.schedules import alarm_of
from trellis_jobs.model.schedules.address import ScheduleAddress
from trellis_jobs.model.schedules.changes import Author, create, put
from trellis_jobs.model.schedules.firing import alarm_time
from trellis_jobs.model.schedules.record import Origin

if TYPE_CHECKING:
    from trellis_jobs.contract.declaration import ServiceContract
    from trellis_jobs.environment import Environment
    from trellis_jobs.jetstream.schedules.schedules import Schedules
    from trellis_jobs.model.schedules.definition import ScheduleDefinition
    from trellis_jobs.model.schedules.record import Decision, ScheduleRecord

log = logging.getLogger(__name__)

_AUTHOR: Final = Author(Origin.CONTRACT)
_RETRY_DELAY: Final = 30.0
# A schedule that is due for longer waits for a process with other code, or was not handled yet.
LATE: Final = timedelta(seconds=10)
_HANDLED_AFTER: Final = 3.0


@dataclass(frozen=True, slots=True)
class DeclaredSchedules:
    contract: ServiceContract
    schedules: Schedules
    environment: Environment
    retry_delay: float = _RETRY_DELAY

    async def keep_applying(self) -> None:
        """Tries again until it succeeds. A worker without its schedules runs jobs as before."""
        reported: str | None = None
        while (reason := await self._failure()) is not None:
            if reason != reported and self._declared():
                log.warning(
                    "the schedules of the contract could not be applied, retrying every %g s: %s",
                    self.retry_delay,
                    reason,
                    extra={"error": reason},
                )
            reported = reason
            await asyncio.sleep(self.retry_delay)
        if reported is not None and self._declared():
            log.info("the schedules of the contract are applied now")

    async def _failure(self) -> str | None:
        """Returns why the schedules could not be applied, or None."""
        try:
            failed = await self.apply()
            await self.ring_waiting()
        except (JobsError, ConnectionLost) as error:
            return str(error)
        except Exception as error:
            log.exception("the schedules of the contract could not be applied, and are tried again")
            return repr(error)
        return "; ".join(f"{address}: {error}" for address, error in failed.items()) or None

    async def apply(self) -> dict[ScheduleAddress, JobsError]:
        """Returns the errors of schedules to try again. Does not try again what was refused."""
        declared, failed = self._declared(), dict[ScheduleAddress, JobsError]()
        for address, definition in declared.items():
            try:
                await self.schedules.change(address, partial(self._put, address, definition))
            except ScheduleRefused as refusal:
                log.warning("%s", refusal, extra={"schedule": str(address)})
            except JobsError as error:
                failed[address] = error
        for record in await self.schedules.records.all(self.contract.service):
            if record.origin is Origin.CONTRACT and record.address not in declared:
                await self._remove(record)
        return failed

    async def ring_waiting(self) -> None:
        """Publishes the alarms of schedules that only processes with other code could not handle.

        These alarms are delivered again after minutes. Others that are overdue because no process
        was up are delivered now, so this looks twice, and publishes what is still overdue.
        """
        if await self._waiting():
            await asyncio.sleep(_HANDLED_AFTER)
            for record in await self._waiting():
                now = self.environment.server_now()
                await self.schedules.alarms.set(alarm_of(record.address), now)

    async def _waiting(self) -> list[ScheduleRecord]:
        late = self.environment.server_now() - LATE
        return [
            record
            for record in await self.schedules.records.all(self.contract.service)
            if record.address.job_type in self.contract.queues
            and (due := alarm_time(record)) is not None
            and due < late
        ]

    def _declared(self) -> dict[ScheduleAddress, ScheduleDefinition]:
        service = self.contract.service
        return {
            ScheduleAddress(service, queue.name, name): definition
            for queue in self.contract.queues.values()
            for name, definition in queue.schedules.items()
        }

    def _put(
        self,
        address: ScheduleAddress,
        definition: ScheduleDefinition,
        record: ScheduleRecord | None,
    ) -> Decision:
        now = self.environment.now()
        if record is None:
            return create(address, definition, author=_AUTHOR, now=now)
        return put(record, definition, author=_AUTHOR, now=now)

    async def _remove(self, record: ScheduleRecord) -> None:
        log.info("schedule %s is removed: the contract does not declare it", record.address)
        await self.schedules.delete(record.address)
