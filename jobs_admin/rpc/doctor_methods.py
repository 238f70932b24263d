"""The RPCs about the installation as a whole: what is wrong, and what to do."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from jobs_admin.api.contract import Rpcs
from jobs_admin.doctor import rules
from jobs_admin.doctor.alarm_rules import check_alarms, read_alarms
from jobs_admin.doctor.attention import attention
from jobs_admin.doctor.checks import diagnose
from jobs_admin.doctor.job_rules import is_failing
from jobs_admin.doctor.key_rules import check_keys
from jobs_admin.doctor.schedule_rules import check_schedules
from jobs_admin.doctor.worker_rules import check_worker_records
from jobs_admin.remembered import Remembered
from jobs_admin.rpc.router import answered_by
from jobs_admin.schedules.known_queues import known_queues

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import datetime, timedelta

    from jobs_admin.api import inputs
    from jobs_admin.api.views.doctor import AttentionView, Diagnosis, Finding
    from jobs_admin.api.views.queues import QueueView
    from jobs_admin.api.views.services import WorkerView
    from jobs_admin.doctor.checks import CheckStep, Installation
    from jobs_admin.health import Health
    from jobs_admin.rpc.queue_facts import QueueFacts
    from jobs_admin.rpc.router import Caller, Method
    from jobs_admin.schedules.registry import ScheduleRegistry

# Open consoles ask every second. What changes rarely and costs more is checked less often.
_LIVELY_SECONDS: Final = 1.0
_SLOW_SECONDS: Final = 30.0
_SLOW: Final = frozenset({"server", "streams", "readers", "clock"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Examination:
    """`grace`: for how long a schedule that is due is left to the workers of its service."""

    installation: Installation
    facts: QueueFacts
    health: Health
    schedules: ScheduleRegistry
    grace: timedelta

    async def whole(self) -> Diagnosis:
        return await diagnose(self.installation, self._steps())

    async def lively(self) -> Diagnosis:
        """What jobs, queues, workers and schedules do."""
        steps = {name: step for name, step in self._steps().items() if name not in _SLOW}
        return await diagnose(self.installation, steps)

    async def slow(self) -> Diagnosis:
        """What the server and its streams are like."""
        steps = {name: step for name, step in self._steps().items() if name in _SLOW}
        return await diagnose(self.installation, steps)

    def _steps(self) -> dict[str, CheckStep]:
        of_server = self.installation.server_checks()
        return {
            "server": of_server["server"],
            "streams": of_server["streams"],
            "queues": self._check_queues,
            "alarms": self._check_alarms,
            "readers": of_server["readers"],
            "admin": self._check_admin,
            "clock": of_server["clock"],
        }

    async def _check_queues(self) -> list[Finding]:
        queues, keys = await asyncio.gather(
            self.facts.queues(with_ended=False), self.facts.contended_keys()
        )
        found = rules.check_queues(queues, await self._failing_since(queues))
        return [*found, *check_keys(keys, await self.facts.clock.now())]

    async def _failing_since(self, queues: list[QueueView]) -> dict[str, datetime]:
        """Of the queues that fail now, by name: when that began."""
        failing = [queue for queue in queues if is_failing(queue)]
        return {queue.name: await self.facts.failing_since(queue) for queue in failing}

    async def _check_alarms(self) -> list[Finding]:
        queues = await self.facts.queues(with_ended=False)
        found = check_alarms(await read_alarms(self.installation.connection, queues))
        return [*found, *await self._check_schedules()]

    async def _check_schedules(self) -> list[Finding]:
        known = self.schedules.select() if self.schedules.is_complete else []
        unreadable = [each.address for each in known if each.stored.problem is not None]
        overdue = await self.schedules.overdue(await self.facts.clock.now() - self.grace)
        queues = known_queues(self.facts.workers.heard())
        unknown = [each.address for each in known if queues.lacks(each.address)]
        return check_schedules(overdue, unreadable, unknown)

    async def _check_admin(self) -> list[Finding]:
        health, listed = await asyncio.gather(self.health.report(), self.facts.services())
        workers = [worker for service in listed for worker in service.workers]
        return [
            *rules.check_health(health.view),
            *rules.check_workers(workers),
            *rules.check_worker_clocks(workers),
            *await self._check_records(workers),
        ]

    async def _check_records(self, heartbeats: list[WorkerView]) -> list[Finding]:
        if not self.facts.workers.is_complete:
            return []
        now = await self.facts.clock.now()
        return check_worker_records(await self.facts.processes(), heartbeats, now)


class DoctorMethods:
    def __init__(self, examination: Examination, monotonic: Callable[[], float]) -> None:
        self._examination = examination
        self._lively = Remembered(examination.lively, _LIVELY_SECONDS, monotonic)
        self._slow = Remembered(examination.slow, _SLOW_SECONDS, monotonic)

    def table(self) -> Mapping[str, Method]:
        return dict(
            [
                answered_by(Rpcs.DOCTOR, self.examine),
                answered_by(Rpcs.ATTENTION, self.get_attention),
            ]
        )

    async def examine(self, _: inputs.Nothing, __: Caller) -> Diagnosis:
        return await self._examination.whole()

    async def get_attention(self, _: inputs.Nothing, __: Caller) -> AttentionView:
        diagnoses = await asyncio.gather(self._lively.get(), self._slow.get())
        return attention(diagnoses, await self._examination.facts.clock.now())
