"""The record of a worker process as operators see it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from jobs_admin.api.views.workers import (
    DirectiveView,
    VerdictView,
    WorkerProcessView,
    WorkerQueueView,
)
from trellis_jobs.jetstream.client.stored_message import moment_of
from trellis_jobs.model.worker_record import misses_beats

if TYPE_CHECKING:
    from datetime import datetime

    from jobs_admin.workers.registry import KnownWorker, WorkerRegistry
    from trellis_jobs.model.worker_record import Directive, Verdict, WorkerRecord

_MILLISECOND: Final = timedelta(milliseconds=1)


@dataclass(frozen=True, slots=True)
class Silence:
    """When the last beat was stored, for how long there was none, and when the worker is dead.

    `dead_at` is None if no admin runtime watches the worker.
    """

    last_beat_at: datetime
    lasts: timedelta
    dead_at: datetime | None = None


def worker_view(record: WorkerRecord, silence: Silence) -> WorkerProcessView:
    profile = record.profile
    is_late = misses_beats(record, silence.lasts)
    return WorkerProcessView(
        service=profile.service,
        instance_id=profile.instance,
        hostname=profile.hostname,
        pid=profile.pid,
        started_at=profile.started_at,
        queues=tuple(
            WorkerQueueView(type=queue.job_type, concurrency=queue.concurrency)
            for queue in profile.queues
        ),
        concurrency=profile.concurrency,
        state=record.state,
        beat=record.beat,
        active_jobs=record.active_jobs,
        active_job_ids=dict(record.active),
        held_job_ids=dict(record.held),
        labels=profile.labels,
        version=profile.version,
        app_version=profile.app_version,
        interval_ms=profile.interval // _MILLISECOND,
        dead_after_ms=profile.dead_after // _MILLISECOND,
        wanted=None if record.directive is None else _directive(record.directive),
        verdict=None if record.verdict is None else _verdict(record.verdict),
        last_beat_at=silence.last_beat_at,
        silent_for_ms=silence.lasts // _MILLISECOND,
        silent=is_late,
        dead_at=silence.dead_at if is_late else None,
    )


def known_workers(registry: WorkerRegistry, now: datetime) -> list[WorkerProcessView]:
    """The workers that this admin runtime watches. `now` is the server's time."""
    return [_registered_view(registry, known, now) for known in registry.all()]


def _registered_view(
    registry: WorkerRegistry, known: KnownWorker, now: datetime
) -> WorkerProcessView:
    silent_for = registry.silent_for(known)
    dead_at = now + known.record.profile.dead_after - silent_for
    return worker_view(known.record, Silence(moment_of(known.stored_ns), silent_for, dead_at))


def _directive(directive: Directive) -> DirectiveView:
    return DirectiveView(
        state=directive.state,
        epoch=directive.epoch,
        at=directive.at,
        by=directive.by,
        reason=directive.reason,
    )


def _verdict(verdict: Verdict) -> VerdictView:
    return VerdictView(
        by=verdict.by,
        at=verdict.at,
        jobs=sum(map(len, verdict.lost.values())),
        recovered=verdict.is_recovered,
    )
