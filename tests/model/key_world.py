"""A small world around one key: a log, the key's state, a work queue, clocks, and processes.

A process is a generator that names each step before it does it. Between two steps anybody else may
act, and the process may be cut off for long, or die: then it just goes no further. Log and key
never change together, as in the real world; each alone is linearizable.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, Protocol, TypeVar

from tests.given import after, key_state, retried
from tests.given import created as given_created
from trellis_jobs.model import events as e
from trellis_jobs.model.job_status import Head, JobStatus
from trellis_jobs.model.keys.lease_observer import LeaseObserver
from trellis_jobs.model.keys.slots import Acquired, Acquisition, acquire, drop
from trellis_jobs.model.keys.state import KeyState, Slot, Waiting
from trellis_jobs.model.reducer import Illegal, advance
from trellis_jobs.model.states import JobState

INTERVAL: Final = 10
ACK_WAIT: Final = 30
TTL: Final = 60
MAX_TRIES: Final = 3
_ROUNDS_TO_REST: Final = 150

Steps = Iterator[str]


class Move(Protocol):
    @property
    def state(self) -> KeyState: ...


M = TypeVar("M", bound=Move)


@dataclass
class Log:
    """One sequence over all jobs; an append names the newest event its writer knows of its job."""

    sequence: int = 0
    heads: dict[str, Head] = field(default_factory=dict)
    ended_by: dict[str, e.EventKind] = field(default_factory=dict)

    def head(self, job: str) -> Head | None:
        return self.heads.get(job)

    def status(self, job: str) -> JobStatus | None:
        head = self.heads.get(job)
        return head.status if head else None

    def append(self, job: str, event: e.Event, *, after: int) -> Head | None:
        """None if it is refused: `after` is not the job's newest event any more."""
        before = self.heads.get(job)
        if after != (before.sequence if before else 0):
            return None
        moved = advance(before.status if before else None, event)
        assert not isinstance(moved, Illegal), f"{job}: {moved}"
        self._note_end(before.status if before else None, event, moved)
        self.sequence += 1
        head = self.heads[job] = Head(self.sequence, moved.recorded_at(self.sequence))
        return head

    def _note_end(self, before: JobStatus | None, event: e.Event, moved: JobStatus) -> None:
        if before and before.owner and moved.owner != before.owner:
            self.ended_by[before.owner.id] = event.kind


@dataclass
class Message:
    """What brings one run of a job to workers until one of them answers for good."""

    waiting: Waiting
    begun: Head
    deliveries: int = 0
    is_out: bool = False
    heard_at: float = 0
    not_before: float = 0
    is_gone: bool = False

    @property
    def job(self) -> str:
        return self.waiting.job_id

    def is_due(self, now: float) -> bool:
        if self.is_gone or now < self.not_before:
            return False
        return not self.is_out or now - self.heard_at >= ACK_WAIT

    def deliver(self, now: float) -> int:
        self.is_out, self.heard_at = True, now
        self.deliveries += 1
        return self.deliveries

    def keep(self, delivery: int, now: float) -> None:
        if delivery == self.deliveries:
            self.heard_at = now

    def acknowledge(self) -> None:
        self.is_gone = True

    def put_back(self, delivery: int, until: float) -> None:
        if delivery == self.deliveries:
            self.is_out, self.not_before = False, until


@dataclass
class Worker:
    """Its monotonic clock began anywhere, and its wall clock is wrong by `skew`."""

    name: str
    offset: float = 0
    skew: float = 0
    observer: LeaseObserver = field(default_factory=LeaseObserver)


class Process:
    """`about_to` is the step it does next; None when there is none."""

    def __init__(self, steps: Steps) -> None:
        self._steps = steps
        self.about_to: str | None = next(steps, None)

    def step(self) -> None:
        self.about_to = next(self._steps, None)

    def run(self, *, until: str | None = None) -> None:
        """Do all steps before that one."""
        for _ in range(100):
            if self.about_to in {until, None}:
                break
            self.step()
        assert self.about_to == until

    def keep_in_touch(self) -> None:
        """What a connected process does all the time, beside its steps."""

    def watch_the_clock(self) -> None:
        """What even a process that is cut off does all the time."""


@dataclass
class World:
    max_active: int = 1
    max_queued: int = 3
    is_calm: bool = False
    workers: list[Worker] = field(default_factory=lambda: [Worker("w0"), Worker("w1")])
    now: float = 0
    log: Log = field(default_factory=Log)
    messages: list[Message] = field(default_factory=list)
    processes: list[Process] = field(default_factory=list)
    evicted: set[str] = field(default_factory=set)
    counted: int = 0
    names: int = 0

    def __post_init__(self) -> None:
        self.key = key_state(max_active=self.max_active, max_queued=self.max_queued)

    def apply(self, move: Callable[[KeyState], M]) -> M:
        moved = move(self.key)
        self.key = moved.state
        return moved

    def new_name(self, what: str) -> str:
        self.names += 1
        return f"{what}-{self.names}"

    def time(self) -> datetime:
        """Right, and never the same twice."""
        return after(self.now + self.names / 1000)

    def begin(self, process: Process) -> None:
        self.processes.append(process)

    def crash(self, process: Process) -> None:
        self.processes.remove(process)

    def step(self, process: Process) -> None:
        process.step()
        self.processes = [each for each in self.processes if each.about_to]

    def pass_time(self, seconds: float, *, cut_off: frozenset[Process] = frozenset()) -> None:
        """Connected processes keep their leases meanwhile; those that are cut off cannot."""
        for waited in _portions(seconds):
            self.now += waited
            for process in self.processes:
                process.watch_the_clock()
                if process not in cut_off:
                    process.keep_in_touch()

    def create(self, waiting: Waiting) -> bool:
        job, event = waiting.job_id, given_created(at=waiting.created_at, max_tries=MAX_TRIES)
        return self._bring_to_work(waiting, self.log.append(job, event, after=0))

    def create_again(self, waiting: Waiting, known: Head) -> bool:
        job, event = waiting.job_id, retried(at=waiting.created_at, max_tries=MAX_TRIES)
        return self._bring_to_work(waiting, self.log.append(job, event, after=known.sequence))

    def _bring_to_work(self, waiting: Waiting, begun: Head | None) -> bool:
        if begun is not None:
            self.messages.append(Message(waiting, begun))
        return begun is not None

    def acquire(self, slot: Slot, waiting: Waiting, *, may_overtake: bool) -> Acquisition:
        ahead = self.first_created_before(waiting, slot.started_at)
        free, own = self.key.free, self.key.slot_of(slot.job_id)
        moved = self.apply(lambda state: acquire(state, slot, waiting, may_overtake=may_overtake))
        if self.is_calm and own is None and isinstance(moved, Acquired):
            assert len(ahead) < free, f"{slot.job_id} was served before {ahead}"
        return moved

    def first_created_before(self, waiting: Waiting, wall: datetime) -> list[str]:
        """By the log alone: the jobs that could start too and were created earlier."""
        return [
            message.job
            for message in self.messages
            if message.waiting.created_at < waiting.created_at
            and self.key.slot_of(message.job) is None
            and self._could_start(message.job, wall)
        ]

    def _could_start(self, job: str, wall: datetime) -> bool:
        status = self.log.status(job)
        if status is None or status.state not in {JobState.PENDING, JobState.RETRY}:
            return False
        return status.next_attempt_at is None or status.next_attempt_at <= wall

    def evict(self, slot: Slot, *, counted: bool) -> None:
        """Counted here by what became of the slot and of its job, whatever `counted` says."""
        before = self.key
        self.apply(lambda state: drop(state, slot.token, counted=counted))
        if len(self.key.active) < len(before.active):
            self.evicted.add(slot.token)
            status = self.log.status(slot.job_id)
            self.counted += status is not None and status.state is JobState.STALE

    def deliverable(self) -> list[Message]:
        return [message for message in self.messages if message.is_due(self.now)]

    def live(self) -> list[str]:
        return [job for job, head in self.log.heads.items() if not head.status.is_over]

    def come_to_rest(self, attend: Callable[[Message], Process]) -> None:
        """From now on no process fails, and none gives up for ever."""
        for _ in range(_ROUNDS_TO_REST):
            for message in self.deliverable():
                self.begin(attend(message))
            for process in list(self.processes):
                self.step(process)
            if not self.processes and all(message.is_gone for message in self.messages):
                return
            self.pass_time(INTERVAL / 2)
        raise AssertionError(f"no rest: {[each.about_to for each in self.processes]}, {self.key}")


def _portions(seconds: float) -> Iterator[float]:
    while seconds > 0:
        yield min(seconds, INTERVAL)
        seconds -= INTERVAL
