"""The service of a campaign, and what its producers wish for, drawn from chance."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from random import Random
from typing import Final

from tests.keys.work_lab import MANY, by_key
from tests.support.example_service import Report, Task, example_jobs
from trellis_jobs import Cron, Every, QueueDepth
from trellis_jobs.contract.declaration import JobOptions
from trellis_jobs.contract.schedules import Schedule
from trellis_jobs.model.values import replace

KEYS: Final = 6


# Leases are short, and lost attempts are many: only `fragile` jobs have few tries.
_SHORT: Final[JobOptions] = {"ack_wait": 2, "backoff": [0.2], "max_deliver": 60}
_FOUR: Final[JobOptions] = {**_SHORT, "concurrency": 4}
_EIGHT: Final[JobOptions] = {**_SHORT, "concurrency": 8}

_BRIEFLY: Final = Task(key="tick", do="nap", seconds=0.05)
# Longer than the time between two ticks.
_AT_LENGTH: Final = Task(key="tick", do="nap", seconds=1.5)
# Nothing but a tick makes a job of these, so the checker knows which jobs there must be.
_DECLARED: Final[Mapping[str, Schedule]] = {
    "all": Every(1, payload=_BRIEFLY, catch_up="all", max_catch_up=1_000),
    "jitter": Every(2, payload=_BRIEFLY, jitter=1.5, catch_up="all", max_catch_up=1_000),
    "alone": Every(1, payload=_AT_LENGTH, overlap="skip"),
    "newest": Every(2, payload=_AT_LENGTH, overlap="cancel-running"),
    "paused": Cron("*/2 * * * * *", tz="Europe/Berlin", payload=_BRIEFLY),
}
CHAOS: Final = example_jobs(
    "chaos",
    Task,
    Report,
    plain=_EIGHT,
    # Only the recovery of dead workers hands these on before the campaign is over.
    long={**_EIGHT, "ack_wait": 600},
    fragile={**_FOUR, "backoff": [0.1, 0.5], "max_deliver": 3, "max_snoozes": 2},
    brief={**_FOUR, "deadline": 4},
    one={**_EIGHT, "key": by_key(), "queue": MANY},
    three={**_EIGHT, "key": by_key(3), "queue": MANY},
    narrow={**_FOUR, "key": by_key(), "queue": QueueDepth(1)},
    coalesce={**_FOUR, "key": by_key(), "queue": QueueDepth(1, "coalesce")},
    newest={**_FOUR, "key": by_key(), "queue": QueueDepth(1, "replace-oldest", "when-full")},
    punctual={**_FOUR, "key": by_key(), "queue": QueueDepth(1, "reject", "when-full")},
    ticks={**_EIGHT, "schedules": _DECLARED},
)


QUEUES: Final = tuple(CHAOS.contract.queues)
LIMITS: Final[Mapping[str, int]] = {
    name: queue.key_policy.max_active
    for name, queue in CHAOS.contract.queues.items()
    if queue.key_policy is not None
}
MAX_SNOOZES: Final[Mapping[str, int]] = {
    name: queue.retry.max_snoozes for name, queue in CHAOS.contract.queues.items()
}
TICKING: Final = "ticks"
# An operator pauses and resumes this schedule, which the contract declares.
PAUSED: Final = "paused"
# Several producers change these at once.
_MADE: Final = ("acme", "globex", "initech")
_TIMINGS: Final[Sequence[Schedule]] = (
    Every(1, payload=_BRIEFLY, catch_up="all", max_catch_up=1_000),
    Every(2, payload=_BRIEFLY, catch_up="skip"),
    Every(1, payload=_AT_LENGTH, overlap="replace"),
    Cron("*/3 * * * * *", tz="America/New_York", payload=_BRIEFLY),
)

_DOINGS: Final = {
    "answer": 40,
    "nap": 40,
    "fail once": 8,
    "later": 5,
    "snooze once": 5,
    "always snooze": 2,
    "give up": 3,
    "always fail": 3,
}
_ONLY_FRAGILE: Final = ("always fail", "always snooze")


class Move(StrEnum):
    """What becomes of a job while it waits."""

    EARLIER = "it is moved to an earlier time"
    LATER = "it is moved to a later time"
    NOW = "it is to run now"


@dataclass(frozen=True)
class Wish:
    """`cancel_after`: seconds after its creation, or None if it is not cancelled.

    `delay`: seconds until it may run, or None if it may run at once. `moves`: what becomes of it,
    after this many seconds each.
    """

    queue: str
    errand: Task
    deadline: float | None
    cancel_after: float | None
    delay: float | None
    moves: tuple[tuple[float, Move], ...]


def wish(chance: Random) -> Wish:
    queue = chance.choice(QUEUES)
    [do] = chance.choices([*_DOINGS], [*_DOINGS.values()])
    if do in _ONLY_FRAGILE and queue != "fragile":
        do = "nap"
    seconds = chance.choice([0.01, 0.05, 0.2, 0.5])
    delay = chance.choice([0.1, 0.5, 1.2, 3.0]) if chance.random() < 0.3 else None
    deadline = chance.uniform(0.5, 5) if chance.random() < 0.05 else None
    return Wish(
        queue,
        Task(key=f"key-{chance.randrange(KEYS)}", do=do, seconds=seconds),
        deadline=deadline if deadline is None or delay is None else deadline + delay,
        cancel_after=chance.uniform(0, 0.5) if chance.random() < 0.08 else None,
        delay=delay,
        moves=tuple(_moves(chance, is_delayed=delay is not None)),
    )


def _moves(chance: Random, *, is_delayed: bool) -> Iterator[tuple[float, Move]]:
    """More often of those that are delayed, and sometimes several."""
    while chance.random() < (0.4 if is_delayed else 0.05):
        yield chance.uniform(0, 1), chance.choice([*Move])


class Change(StrEnum):
    """What becomes of a schedule that is made at run time."""

    PUT = "it is made, or gets another definition"
    PAUSE = "it is paused"
    PAUSE_BRIEFLY = "it is paused for a second"
    RESUME = "it is resumed"
    TRIGGER = "a job of it is created"
    DELETE = "it is deleted"


_CHANGES: Final = {
    Change.PUT: 8,
    Change.PAUSE: 2,
    Change.PAUSE_BRIEFLY: 3,
    Change.RESUME: 4,
    Change.TRIGGER: 4,
    Change.DELETE: 2,
}


@dataclass(frozen=True)
class ScheduleWish:
    """`schedule` is what a PUT makes of it. No two of them are equal."""

    name: str
    change: Change
    schedule: Schedule


def schedule_wish(chance: Random) -> ScheduleWish:
    [change] = chance.choices([*_CHANGES], [*_CHANGES.values()])
    schedule = chance.choice(_TIMINGS)
    payload = Task.model_validate(schedule.payload).model_copy(
        update={"text": str(chance.random())}
    )
    return ScheduleWish(chance.choice(_MADE), change, replace(schedule, payload=payload))
