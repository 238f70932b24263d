"""Why a job is in the state it is in, and what must happen next: the facts, and the answer."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from jobs_admin.api.reasons import Because
    from trellis_jobs.jetstream.work.consumer_info import QueueConsumer
    from trellis_jobs.model.keys.state import KeyState


@dataclass(frozen=True, slots=True)
class Worker:
    """One that works on the job's queue, and when it was heard of last."""

    instance: str
    seen_at: datetime
    places: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """`workers` are those heard of lately; `running` counts the queue's active jobs.

    `now` is the server's time. `owner_seen_at` is of the worker that runs the job. `expired` are
    the tokens of the key's slots whose lease is over. `has_work` is None where it was not asked;
    `was_delivered`: a worker has had the message before, whatever it did with it.
    `known_version`: the newest version of payloads that a worker of the queue ever knew, if told.
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


@dataclass(frozen=True, slots=True)
class Explanation:
    """One plain sentence, what must happen next, and both as data."""

    because: Because
    sentence: str
    next: str
    since: datetime | None = None
    until: datetime | None = None
    details: Mapping[str, Any] = field(default_factory=dict)
