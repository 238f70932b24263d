"""Finds the handler of an alarm by its family, and answers for a handler that failed."""

from __future__ import annotations

import logging
from datetime import timedelta
from typing import TYPE_CHECKING, Final, Protocol

from trellis_jobs.errors import JobsError
from trellis_jobs.jetstream.client.connection import ConnectionLost
from trellis_jobs.model.retry import DoublingDelay
from trellis_jobs.model.settlement import Nak

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trellis_jobs.environment import Environment
    from trellis_jobs.jetstream.alarms.due_alarms import DueAlarm
    from trellis_jobs.model.settlement import Answer
    from trellis_jobs.model.subjects import AlarmFamily

log = logging.getLogger(__name__)

_RETRY_DELAY: Final = DoublingDelay(timedelta(seconds=1), 5)


class AlarmHandler(Protocol):
    """Does what an alarm reminds of. `hold` waits, and returns False if the worker stops."""

    async def handle(self, alarm: DueAlarm, hold: HoldAlarm) -> Answer: ...


class HoldAlarm(Protocol):
    async def __call__(self, delay: timedelta) -> bool: ...


class AlarmHandlers:
    """The handlers of one worker process, by family."""

    def __init__(
        self, by_family: Mapping[AlarmFamily, AlarmHandler], environment: Environment
    ) -> None:
        self._by_family = by_family
        self._environment = environment

    async def handle(self, alarm: DueAlarm, hold: HoldAlarm) -> Answer:
        """An alarm that cannot be handled now is delivered again after a while."""
        try:
            return await self._by_family[alarm.address.family].handle(alarm, hold)
        except (JobsError, ConnectionLost) as error:
            log.warning(
                "the alarm of %s %s could not be handled, and is delivered again: %s",
                alarm.address.family,
                alarm.address.name,
                error,
                extra={"alarm": alarm.address.name, "error": str(error)},
            )
        except Exception:
            log.exception(
                "the alarm of %s %s could not be handled, and is delivered again",
                alarm.address.family,
                alarm.address.name,
            )
        return Nak(_RETRY_DELAY.after(alarm.deliveries, self._environment.random()))
