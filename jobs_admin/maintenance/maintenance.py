"""Everything that looks after jobs by itself, put together. All replicas may do all of it at once.

Each action is a guarded append, a guarded put-back or a compare-and-set (design D19).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

from jobs_admin.actions.guarded_append import GuardedAppender
from jobs_admin.maintenance import abandoned_readers
from jobs_admin.maintenance.abandoned_readers import AbandonedReaders
from jobs_admin.maintenance.advisories import Advisories
from jobs_admin.maintenance.exhausted_jobs import Burials
from jobs_admin.maintenance.janitor import Janitor
from jobs_admin.maintenance.key_repair import KeyRepair
from jobs_admin.maintenance.occupied_keys import OccupiedKeys
from jobs_admin.maintenance.pace import Pace
from jobs_admin.maintenance.reconciliation import Reconciliation
from jobs_admin.maintenance.stuck_messages import StuckMessages
from jobs_admin.maintenance.worker_liveness import Absences
from trellis_jobs.jetstream.log.presence import Presence
from trellis_jobs.jetstream.work.advisory_feed import AdvisoryFeed
from trellis_jobs.jetstream.work.consumer_info import QueueConsumers
from trellis_jobs.jetstream.work.messages import WorkMessages

if TYPE_CHECKING:
    from collections.abc import Coroutine, Mapping
    from typing import Any

    from jobs_admin.actions.job_keys import JobKeys
    from jobs_admin.config import AdminConfig
    from jobs_admin.loops import Loops
    from jobs_admin.reads.read_your_writes import LogProgress
    from jobs_admin.reads.readers import Readers
    from trellis_jobs.environment import Environment
    from trellis_jobs.jetstream.client.connection import Connection
    from trellis_jobs.jetstream.client.server_clock import ServerClock
    from trellis_jobs.jetstream.log.event_log import EventLog

READERS: Final = "abandoned readers"


@dataclass(frozen=True, slots=True, kw_only=True)
class Upkeep:
    connection: Connection
    events: EventLog
    readers: Readers
    keys: JobKeys
    clock: ServerClock
    around: Environment
    progress: LogProgress

    def loops(self, loops: Loops, config: AdminConfig) -> Mapping[str, Coroutine[Any, Any, None]]:
        """By name, ready to be run."""
        verdicts = GuardedAppender(self.connection, self.events)
        work = WorkMessages(self.connection)
        consumers = QueueConsumers(self.connection)
        absences = Absences(Presence(self.connection, self.events.features), self.around.monotonic)
        burials = Burials(verdicts=verdicts, work=work, keys=self.keys, now=self.around.now)
        advisories = Advisories(AdvisoryFeed(self.connection), consumers, work, burials)
        janitor = Janitor(
            self.readers, verdicts, self.keys, self.clock, partial(loops.went_on, "janitor")
        )
        sweeps = {
            "reconciliation": Reconciliation(
                readers=self.readers,
                verdicts=verdicts,
                work=work,
                consumers=consumers,
                absences=absences,
                clock=self.clock,
                now=self.around.now,
                grace=config.reconcile_grace,
                is_caught_up=self.progress.is_at_the_end,
                position=self._position,
                pace=Pace(self._position),
                went_on=partial(loops.went_on, "reconciliation"),
            ).sweep,
            "stuck messages": self._stuck_messages(verdicts, work, burials, absences).sweep,
            "key repair": self._key_repair(verdicts).sweep,
        }
        abandoned = AbandonedReaders(self.connection, partial(loops.went_on, READERS))
        return {
            READERS: loops.repeat(READERS, abandoned_readers.INTERVAL, abandoned.sweep),
            "janitor": loops.repeat("janitor", config.janitor_interval, janitor.sweep),
            "advisories": loops.keep("advisories", advisories.run),
            **{
                name: loops.repeat(name, config.reconcile_interval, sweep)
                for name, sweep in sweeps.items()
            },
        }

    def _stuck_messages(
        self, verdicts: GuardedAppender, work: WorkMessages, burials: Burials, absences: Absences
    ) -> StuckMessages:
        return StuckMessages(
            verdicts=verdicts,
            work=work,
            consumers=QueueConsumers(self.connection),
            keys=self.keys,
            burials=burials,
            absences=absences,
            monotonic=self.around.monotonic,
        )

    def _key_repair(self, verdicts: GuardedAppender) -> KeyRepair:
        return KeyRepair(
            readers=self.readers,
            verdicts=verdicts,
            keys=self.keys,
            occupied=OccupiedKeys(self.connection, self.keys.buckets),
            now=self.around.now,
            is_caught_up=self.progress.is_at_the_end,
            pace=Pace(self._position),
        )

    def _position(self) -> int:
        return self.progress.position
