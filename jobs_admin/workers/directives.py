"""List worker processes and direct them, with only a connection to the server.

A directive is written into the worker's record under compare-and-set. The worker reads it because
its next beat is refused, so no admin runtime is needed (design D26).
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Final

from jobs_admin.api.views.workers import DirectedWorker, DirectiveOutcome
from jobs_admin.workers.views import Silence, worker_view
from trellis_jobs.environment import utc_now
from trellis_jobs.jetstream.control.worker_records import StoredWorker, WorkerRecords
from trellis_jobs.jetstream.setup.features import detect_features
from trellis_jobs.model.worker_record import Refusal, direct

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from datetime import datetime

    from jobs_admin.api.views.workers import WorkerProcessView
    from jobs_admin.api.worker_filter import WorkerFilter
    from trellis_jobs.jetstream.client.connection import Connection
    from trellis_jobs.model.worker_record import WorkerRecord
    from trellis_jobs.model.worker_states import WorkerState

_MAX_CONCURRENT_WRITES: Final = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class WantedState:
    """The state that an operator wants workers to have, who the operator is, and why."""

    state: WorkerState
    by: str | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class _Unchanged:
    """The worker has followed the same directive already."""

    epoch: int


@dataclass(frozen=True, slots=True)
class WorkerDirectives:
    records: WorkerRecords
    now: Callable[[], datetime]

    async def list_workers(self, wanted: WorkerFilter) -> list[WorkerProcessView]:
        """The workers that match, ordered by service and instance.

        Servers before 2.11 do not remove records; those whose time is over are left out.
        """
        listed = await self.records.listing(wanted.service)
        return wanted.select(
            _view(stored, listed.at)
            for stored in listed.workers
            if _age(stored, listed.at) <= stored.record.lifetime
        )

    async def direct(
        self, workers: Iterable[tuple[str, str]], wanted: WantedState
    ) -> list[DirectedWorker]:
        """Directs these workers, named by service and instance id."""
        slots = asyncio.Semaphore(_MAX_CONCURRENT_WRITES)

        async def direct_one(service: str, instance: str) -> DirectedWorker:
            async with slots:
                return await self._direct(service, instance, wanted)

        return await asyncio.gather(*(direct_one(*each) for each in workers))

    async def _direct(self, service: str, instance: str, wanted: WantedState) -> DirectedWorker:
        stored = await self.records.find(service, instance)
        at = self.now()

        def move(record: WorkerRecord) -> WorkerRecord | Refusal | _Unchanged:
            moved = direct(record, wanted.state, at=at, by=wanted.by, reason=wanted.reason)
            return _Unchanged(record.epoch) if moved is None else moved

        directed = partial(DirectedWorker, service=service, instance_id=instance)
        match None if stored is None else await self.records.change(stored, move):
            case StoredWorker(record):
                return directed(outcome=DirectiveOutcome.DIRECTED, epoch=record.epoch)
            case _Unchanged(epoch):
                return directed(outcome=DirectiveOutcome.UNCHANGED, epoch=epoch)
            case Refusal(reason):
                return directed(outcome=DirectiveOutcome.REFUSED, refused_because=reason)
            case None:
                return directed(outcome=DirectiveOutcome.GONE)
        raise AssertionError("a directive has no other outcome")


async def open_directives(connection: Connection) -> WorkerDirectives:
    features = await detect_features(connection)
    return WorkerDirectives(WorkerRecords(connection, supports_ttl=features.message_ttl), utc_now)


def _view(stored: StoredWorker, at: datetime) -> WorkerProcessView:
    return worker_view(stored.record, Silence(stored.stored_at or at, _age(stored, at)))


def _age(stored: StoredWorker, at: datetime) -> timedelta:
    """The time since the record was stored, which may have happened after the listing."""
    return timedelta() if stored.stored_at is None else max(timedelta(), at - stored.stored_at)
