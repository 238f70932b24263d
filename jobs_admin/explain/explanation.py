"""The facts that an explanation is made from, and the explanation."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from jobs_admin.api.reasons import Because
    from jobs_admin.api.views.workers import WorkerProcessView
    from trellis_jobs.jetstream.alarms.alarms_info import AlarmsInfo
    from trellis_jobs.jetstream.work.consumer_info import QueueConsumer
    from trellis_jobs.model.events import Scheduled
    from trellis_jobs.model.keys.state import KeyState


@dataclass(frozen=True, slots=True)
class Worker:
    """A worker of the job's queue, and when its last heartbeat was stored."""

    instance: str
    seen_at: datetime
    slots: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """`workers` are those seen recently; `running` is the number of the queue's active jobs.

    `now` is the server's time. `owner_seen_at` is when the worker that runs the job was last seen.
    `expired` are the tokens of the key's slots whose lease has expired. `has_work` is None when it
    was not checked. `was_delivered`: a worker has received the work message before.
    `owner` is the record of the worker that runs the job, and `processes` are the records of the
    queue's workers that have not ended; both are empty while the records are not known.
    `known_version`: the newest payload version that the queue's workers support, if known.
    `moved` is the newest event that delayed the job, and `alarms` the alarms of its service, which
    are None if they are not known.
    """

    now: datetime
    workers: tuple[Worker, ...] = ()
    owner_seen_at: datetime | None = None
    owner_is_present: bool = True
    running: int = 0
    queue: QueueConsumer | None = None
    key: KeyState | None = None
    expired: frozenset[str] = frozenset()
    has_work: bool | None = None
    was_delivered: bool = False
    known_version: int | None = None
    owner: WorkerProcessView | None = None
    processes: tuple[WorkerProcessView, ...] = ()
    moved: Scheduled | None = None
    alarms: AlarmsInfo | None = None


@dataclass(frozen=True, slots=True)
class Explanation:
    """A sentence, what must happen next, and both as data."""

    because: Because
    sentence: str
    next: str
    since: datetime | None = None
    until: datetime | None = None
    details: Mapping[str, Any] = field(default_factory=dict)
