"""The values of the whole model: jobs of one key in a guarded log, their messages, the key's state.

Only the server is a model here, as it was measured: appends that a guard lets in or refuses,
reads that may be stale, messages that are delivered again. What everybody decides is the product's.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from functools import cache
from typing import Final, NamedTuple

from tests.given import CONTEXT, NOON, REPORT, key_state, slot, waiting
from trellis_jobs.model import events as e
from trellis_jobs.model.attempts import Attempt
from trellis_jobs.model.identity import JobAddress
from trellis_jobs.model.job_status import Head, JobStatus
from trellis_jobs.model.keys.state import KeyState
from trellis_jobs.model.settlement import Answer, Outcome

MAX_TRIES: Final = 2
MAX_SNOOZES: Final = 1
RUN_AT: Final = NOON + timedelta(minutes=10)
DEADLINE: Final = NOON + timedelta(minutes=30)
LATER: Final = NOON + timedelta(hours=1)
JOBS: Final = tuple(JobAddress(REPORT.service, REPORT.job_type, name) for name in "AB")

Step = tuple[str, bool, "World"]
Steps = Iterator[Step]


class Message(NamedTuple):
    """A work message of the run that `begun` began; `number` counts its deliveries.

    `out`: a delivery of it is under way.
    """

    job: int
    begun: Head
    number: int = 0
    out: bool = False


class Hand(NamedTuple):
    """What one worker has in hand: a delivery, and how far it is with it."""

    message: int
    number: int
    job: int
    run: int
    phase: str
    head: Head
    attempt: Attempt | None = None
    outcome: Outcome | None = None
    answer: Answer | None = None
    seen: Holders = ()
    evicts: str = ""


class Holder(NamedTuple):
    """A slot of the key: whose, by which attempt, and what its holder knew of the log."""

    job: int
    token: str
    since: int


Holders = tuple[Holder, ...]


class Sweep(NamedTuple):
    """What reconciliation has seen of a job, a while ago; `puts_back` once it has decided."""

    job: int
    seen: JobStatus
    puts_back: bool = False


class Alarm(NamedTuple):
    """An alarm of a job: `at_once`, or for the time for which jobs are delayed.

    `out`: a process has it.
    """

    job: int
    at_once: bool
    out: bool = False


class Releaser(NamedTuple):
    """A process with an alarm, and how far it is with it. `head` is what it has read."""

    alarm: Alarm
    phase: str
    head: Head | None = None


class Move(NamedTuple):
    """Who moves a job: the alarm is set, and the event follows. `head` guards it."""

    job: int
    at_once: bool
    head: Head
    leaves_key: bool = False


class World(NamedTuple):
    """`older` is what a lagging replica still says, and `planned` the newest `scheduled` event.

    `copying` are runs on their way to the queue.

    `producers`: "" has not begun, "in" has a place in the key, "done", "gone"; "delays" has set an
    alarm. `repair`: the key as a janitor has seen it. `due`: the time of delayed jobs has come.
    """

    heads: tuple[Head | None, ...]
    older: tuple[Head | None, ...]
    planned: tuple[Head | None, ...]
    producers: tuple[str, ...]
    work: tuple[Message | None, ...] = ()
    copying: tuple[tuple[int, Head], ...] = ()
    slots: Holders = ()
    queued: tuple[int, ...] = ()
    workers: tuple[Hand | None, Hand | None] = (None, None)
    effects: tuple[int, ...] = ()
    operator: int | None = None
    sweep: Sweep | None = None
    repair: tuple[Holders, tuple[int, ...]] | None = None
    alarms: tuple[Alarm, ...] = ()
    releasers: tuple[Releaser | None, Releaser | None] = (None, None)
    move: Move | None = None
    due: bool = False
    late: bool = False
    faults: tuple[tuple[str, int], ...] = ()

    def may(self, fault: str) -> bool:
        return any(name == fault and left for name, left in self.faults)

    def spend(self, fault: str) -> World:
        return self._replace(
            faults=tuple((name, left - (name == fault)) for name, left in self.faults)
        )

    def stands(self, job: int) -> JobStatus | None:
        head = self.heads[job]
        return None if head is None else head.status

    def with_hand(self, index: int, hand: Hand | None) -> World:
        """Workers are alike, so it does not matter which of them has what."""
        hands = (self.workers[1 - index], hand)
        order = sorted(hands, key=lambda each: (each.message, each.number) if each else (99, 0))
        return self._replace(workers=(order[0], order[1]))

    def with_message(self, index: int, message: Message | None) -> World:
        """What is behind the last message that is left, cannot be told from nothing."""
        return self._replace(work=(*self.work[:index], message, *self.work[index + 1 :]))

    def with_alarm(self, alarm: Alarm) -> World:
        return self._replace(alarms=tuple(sorted((*self.alarms, alarm))))

    def without_alarm(self, index: int) -> World:
        return self._replace(alarms=(*self.alarms[:index], *self.alarms[index + 1 :]))

    def with_releaser(self, index: int | None, releaser: Releaser | None) -> World:
        """Processes are alike. `index` is None for one that has nothing in hand."""
        at = self.releasers.index(None) if index is None else index
        hands = [*self.releasers[:at], *self.releasers[at + 1 :], releaser]
        order = sorted(hands, key=lambda each: (each is None, str(each)))
        return self._replace(releasers=(order[0], order[1]))

    def with_key(self, state: KeyState) -> World:
        slots = tuple(Holder(_index(s.job_id), s.token, s.since) for s in state.active)
        return self._replace(slots=slots, queued=tuple(_index(w.job_id) for w in state.queued))

    @property
    def key(self) -> KeyState:
        return key_of(self.slots, self.queued)

    def is_held(self, token: str) -> bool:
        """A worker lives that has this attempt, or is about to make it."""
        return any(hand and hand.attempt and hand.attempt.id == token for hand in self.workers)

    def is_at_rest(self) -> bool:
        """Everything that was asked for is over, and nothing is left of it anywhere."""
        busy = (any(self.workers), any(self.work), self.copying, self.slots, self.queued)
        waits = (self.alarms, any(self.releasers), self.move)
        asked = all(place in {"done", "gone"} for place in self.producers)
        over = all(head is None or head.status.is_over for head in self.heads)
        return asked and over and not any(busy) and not any(waits) and self.operator is None


def _index(job_id: str) -> int:
    return next(n for n, job in enumerate(JOBS) if job.job_id == job_id)


@cache
def key_of(slots: Holders, queued: tuple[int, ...]) -> KeyState:
    """As the product knows it: two may wait, one may run."""
    return key_state(
        max_queued=2,
        active=tuple(
            slot(JOBS[held.job].job_id, held.token, since=held.since, started_at=NOON)
            for held in slots
        ),
        queued=tuple(waiting(JOBS[job].job_id) for job in queued),
    )


def said(job: int, tries: int) -> e.EventFields:
    return {"job": JOBS[job], "context": CONTEXT, "at": NOON, "tries": tries}


def now(world: World) -> datetime:
    if world.late:
        return LATER
    return RUN_AT if world.due else NOON


def beginning(jobs: int, **faults: int) -> World:
    nothing: tuple[None, ...] = (None,) * jobs
    return World(
        heads=nothing,
        older=nothing,
        planned=nothing,
        producers=("",) * jobs,
        effects=(0,) * jobs,
        faults=tuple(sorted(faults.items())),
    )
