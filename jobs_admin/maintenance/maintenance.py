"""Assembles all maintenance loops. All replicas may run all of them at the same time.

Each action is a guarded append, a guarded republish or a compare-and-set (design D19).
"""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

from jobs_admin.actions.guarded_append import GuardedAppender
from jobs_admin.maintenance import abandoned_readers, dead_workers
from jobs_admin.maintenance.abandoned_deliveries import AbandonedDeliveries
from jobs_admin.maintenance.abandoned_readers import AbandonedReaders
from jobs_admin.maintenance.advisories import Advisories
from jobs_admin.maintenance.dead_workers import DeadWorkers
from jobs_admin.maintenance.exhausted_jobs import ExhaustedJobs
from jobs_admin.maintenance.janitor import Janitor
from jobs_admin.maintenance.key_repair import KeyRepair
from jobs_admin.maintenance.occupied_keys import OccupiedKeys
from jobs_admin.maintenance.overdue_alarms import OverdueAlarms
from jobs_admin.maintenance.pace import Pace
from jobs_admin.maintenance.reconciliation import Reconciliation
from jobs_admin.maintenance.stuck_messages import StuckMessages
from jobs_admin.maintenance.worker_liveness import WorkerLiveness
from trellis_jobs.jetstream.control.worker_records import WorkerRecords
from trellis_jobs.jetstream.log.presence import Presence
from trellis_jobs.jetstream.work.advisory_feed import AdvisoryFeed
from trellis_jobs.jetstream.work.consumer_info import QueueConsumers
from trellis_jobs.jetstream.work.messages import WorkMessages

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping
    from typing import Any

    from jobs_admin.actions.job_keys import JobKeys
    from jobs_admin.config import AdminConfig
    from jobs_admin.loops import Loops
    from jobs_admin.reads.read_your_writes import LogProgress
    from jobs_admin.reads.readers import Readers
    from jobs_admin.schedules.registry import ScheduleRegistry
    from jobs_admin.workers.registry import WorkerRegistry
    from trellis_jobs.environment import Environment
    from trellis_jobs.jetstream.alarms.alarms import Alarms
    from trellis_jobs.jetstream.client.connection import Connection
    from trellis_jobs.jetstream.client.server_clock import ServerClock
    from trellis_jobs.jetstream.log.event_log import EventLog

READERS: Final = "abandoned readers"
DEAD_WORKERS: Final = "dead workers"
OVERDUE_ALARMS: Final = "overdue alarms"


@dataclass(frozen=True, slots=True, kw_only=True)
class Maintenance:
    connection: Connection
    events: EventLog
    readers: Readers
    keys: JobKeys
    clock: ServerClock
    environment: Environment
    progress: LogProgress
    workers: WorkerRegistry
    alarms: Alarms
    schedules: ScheduleRegistry

    def loops(self, loops: Loops, config: AdminConfig) -> Mapping[str, Coroutine[Any, Any, None]]:
        """Return the loops by name, ready to run."""
        appender = GuardedAppender(self.connection, self.events)
        work = WorkMessages(self.connection)
        consumers = QueueConsumers(self.connection)
        liveness = WorkerLiveness(
            Presence(self.connection, self.events.features), self.environment.monotonic
        )
        exhausted_jobs = ExhaustedJobs(
            appender=appender, work=work, keys=self.keys, now=self.environment.now
        )
        advisories = Advisories(AdvisoryFeed(self.connection), consumers, work, exhausted_jobs)
        janitor = Janitor(
            self.readers, appender, self.keys, self.clock, partial(loops.report_progress, "janitor")
        )
        sweeps = {
            "reconciliation": self._reconciliation(
                appender, work, liveness, config, partial(loops.report_progress, "reconciliation")
            ).sweep,
            "stuck messages": self._stuck_messages(appender, work, exhausted_jobs, liveness).sweep,
            "key repair": self._key_repair(appender).sweep,
        }
        abandoned = AbandonedReaders(self.connection, partial(loops.report_progress, READERS))
        overdue = self._overdue_alarms(config, partial(loops.report_progress, OVERDUE_ALARMS))
        return {
            READERS: loops.repeat(READERS, abandoned_readers.INTERVAL, abandoned.sweep),
            "janitor": loops.repeat("janitor", config.janitor_interval, janitor.sweep),
            OVERDUE_ALARMS: loops.repeat(OVERDUE_ALARMS, config.janitor_interval, overdue.sweep),
            "advisories": loops.keep_running("advisories", advisories.run),
            DEAD_WORKERS: loops.repeat(
                DEAD_WORKERS, dead_workers.INTERVAL, self._dead_workers(appender, work).sweep
            ),
            **{
                name: loops.repeat(name, config.reconcile_interval, sweep)
                for name, sweep in sweeps.items()
            },
        }

    def _reconciliation(
        self,
        appender: GuardedAppender,
        work: WorkMessages,
        liveness: WorkerLiveness,
        config: AdminConfig,
        report_progress: Callable[[], None],
    ) -> Reconciliation:
        return Reconciliation(
            readers=self.readers,
            appender=appender,
            work=work,
            consumers=QueueConsumers(self.connection),
            liveness=liveness,
            clock=self.clock,
            now=self.environment.now,
            grace=config.reconcile_grace,
            is_caught_up=self.progress.is_caught_up,
            position=self._position,
            pace=Pace(self._position),
            report_progress=report_progress,
        )

    def _stuck_messages(
        self,
        appender: GuardedAppender,
        work: WorkMessages,
        exhausted_jobs: ExhaustedJobs,
        liveness: WorkerLiveness,
    ) -> StuckMessages:
        return StuckMessages(
            appender=appender,
            work=work,
            consumers=QueueConsumers(self.connection),
            keys=self.keys,
            exhausted_jobs=exhausted_jobs,
            liveness=liveness,
            monotonic=self.environment.monotonic,
        )

    def _dead_workers(self, appender: GuardedAppender, work: WorkMessages) -> DeadWorkers:
        features = self.events.features
        return DeadWorkers(
            name=f"jobs-admin on {socket.gethostname()}, pid {os.getpid()}",
            registry=self.workers,
            records=WorkerRecords(self.connection, supports_ttl=features.message_ttl),
            appender=appender,
            work=work,
            keys=self.keys,
            presence=Presence(self.connection, features),
            readers=self.readers,
            deliveries=AbandonedDeliveries(
                registry=self.workers,
                consumers=QueueConsumers(self.connection),
                work=work,
                appender=appender,
            ),
            is_caught_up=self.progress.is_caught_up,
            now=self.environment.now,
        )

    def _overdue_alarms(
        self, config: AdminConfig, report_progress: Callable[[], None]
    ) -> OverdueAlarms:
        return OverdueAlarms(
            readers=self.readers,
            schedules=self.schedules,
            alarms=self.alarms,
            clock=self.clock,
            grace=config.overdue_grace,
            is_caught_up=self.progress.is_caught_up,
            report_progress=report_progress,
        )

    def _key_repair(self, appender: GuardedAppender) -> KeyRepair:
        return KeyRepair(
            readers=self.readers,
            appender=appender,
            keys=self.keys,
            occupied=OccupiedKeys(self.connection, self.keys.buckets),
            now=self.environment.now,
            is_caught_up=self.progress.is_caught_up,
            pace=Pace(self._position),
        )

    def _position(self) -> int:
        return self.progress.position
