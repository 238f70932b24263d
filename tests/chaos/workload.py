"""The service of a campaign, and what its producers wish for, drawn from chance."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from random import Random
from typing import Final

from tests.keys.work_lab import MANY, Done, Errand, by_key
from trellis_jobs import Jobs, QueueDepth, job

KEYS: Final = 6


class ChaosJobs(Jobs, service="chaos"):
    """Leases are short, and lost attempts are many: only `fragile` jobs have few tries."""

    plain = job(Errand, Done, concurrency=8, ack_wait=2, backoff=[0.2], max_deliver=60)
    fragile = job(Errand, Done, concurrency=4, ack_wait=2, backoff=[0.1, 0.5], max_deliver=3)
    brief = job(Errand, Done, concurrency=4, ack_wait=2, backoff=[0.2], max_deliver=60, deadline=4)
    one = job(
        Errand, Done, concurrency=8, ack_wait=2, backoff=[0.2], max_deliver=60,
        key=by_key(), queue=MANY,
    )  # fmt: skip
    three = job(
        Errand, Done, concurrency=8, ack_wait=2, backoff=[0.2], max_deliver=60,
        key=by_key(3), queue=MANY,
    )  # fmt: skip
    narrow = job(
        Errand, Done, concurrency=4, ack_wait=2, backoff=[0.2], max_deliver=60,
        key=by_key(), queue=QueueDepth(max_queued_per_key=1),
    )  # fmt: skip
    coalesce = job(
        Errand, Done, concurrency=4, ack_wait=2, backoff=[0.2], max_deliver=60,
        key=by_key(), queue=QueueDepth(max_queued_per_key=1, when_full="coalesce"),
    )  # fmt: skip
    newest = job(
        Errand, Done, concurrency=4, ack_wait=2, backoff=[0.2], max_deliver=60,
        key=by_key(), queue=QueueDepth(max_queued_per_key=1, when_full="replace-oldest"),
    )  # fmt: skip


QUEUES: Final = tuple(ChaosJobs.contract.queues)
LIMITS: Final[Mapping[str, int]] = {
    name: queue.key_policy.max_active
    for name, queue in ChaosJobs.contract.queues.items()
    if queue.key_policy is not None
}

_DOINGS: Final = {
    "answer": 40,
    "nap": 40,
    "fail once": 8,
    "later": 5,
    "give up": 3,
    "always fail": 3,
}


@dataclass(frozen=True)
class Wish:
    """`cancel_after`: so many seconds after it was created; None: not at all."""

    queue: str
    errand: Errand
    deadline: float | None
    cancel_after: float | None


def wish(chance: Random) -> Wish:
    queue = chance.choice(QUEUES)
    [do] = chance.choices([*_DOINGS], [*_DOINGS.values()])
    if do == "always fail" and queue != "fragile":
        do = "nap"
    seconds = chance.choice([0.01, 0.05, 0.2, 0.5])
    return Wish(
        queue,
        Errand(key=f"key-{chance.randrange(KEYS)}", do=do, seconds=seconds),
        deadline=chance.uniform(0.5, 5) if chance.random() < 0.05 else None,
        cancel_after=chance.uniform(0, 0.5) if chance.random() < 0.08 else None,
    )
