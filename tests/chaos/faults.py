"""The faults there are, and a schedule of them that one seed decides. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from random import Random
from typing import Final


class Fault(StrEnum):
    KILL_WORKER = "a worker is killed"
    STOP_WORKER = "a worker is told to stop"
    PAUSE_WORKER = "a worker is frozen"
    KILL_AT_POINT = "a worker or admin runtime is killed at a named point"
    CLOCK_JUMP = "a worker's clock jumps"
    KILL_PRODUCER = "a producer is killed"
    KILL_CREATING = "a producer is killed at a named point"
    PAUSE_PRODUCER = "a producer is frozen"
    KILL_DAEMON = "an admin runtime is killed"
    PAUSE_DAEMON = "an admin runtime is frozen"
    FULL_DISK = "an admin runtime can write no file"
    CUT = "connections of a process are cut"
    CUT_REQUEST = "a connection is cut while an event is sent"
    CUT_ANSWER = "a connection is cut while an event is acknowledged"
    HOLD_BACK = "everything between a process and the servers is held back"
    REPEAT_ANSWERS = "answers to JetStream are sent once more, and late"
    KILL_SERVER = "a server is killed"
    PAUSE_SERVER = "a server is frozen"
    KILL_LEADER = "the leader of a stream is killed"
    KILL_ALL_SERVERS = "all servers are killed"
    CUT_OFF = "a server is cut off from the others"
    SILENCE = "nothing passes between a server and the others"
    PURGE_WORK = "the work queue is purged"
    PURGE_ALARMS = "the alarms are purged"


@dataclass(frozen=True)
class Injection:
    """At a time, for some seconds; `pick` chooses whom it hits, among those there are."""

    at: float
    fault: Fault
    seconds: float
    pick: int

    def __str__(self) -> str:
        return f"{self.at:7.2f}  {self.fault} ({self.seconds:.1f} s, {self.pick % 100})"


Menu = Mapping[Fault, int]

_ANYWHERE: Final[Menu] = {
    Fault.KILL_WORKER: 6,
    Fault.STOP_WORKER: 2,
    Fault.PAUSE_WORKER: 6,
    Fault.KILL_AT_POINT: 8,
    Fault.CLOCK_JUMP: 3,
    Fault.PAUSE_PRODUCER: 2,
    Fault.KILL_DAEMON: 3,
    Fault.PAUSE_DAEMON: 3,
    Fault.FULL_DISK: 2,
    Fault.CUT: 5,
    Fault.CUT_REQUEST: 3,
    Fault.CUT_ANSWER: 5,
    Fault.HOLD_BACK: 5,
    Fault.REPEAT_ANSWERS: 6,
}
# Only a daemon mends what they break, and not before a minute has passed.
_SLOW_TO_HEAL: Final[Menu] = {
    Fault.KILL_PRODUCER: 2,
    Fault.KILL_CREATING: 3,
    Fault.PURGE_WORK: 2,
    Fault.PURGE_ALARMS: 1,
}
_ONE_SERVER: Final[Menu] = {Fault.KILL_SERVER: 4}
_THREE_SERVERS: Final[Menu] = {
    Fault.KILL_SERVER: 2,
    Fault.PAUSE_SERVER: 2,
    Fault.KILL_LEADER: 3,
    Fault.KILL_ALL_SERVERS: 1,
    Fault.CUT_OFF: 3,
    Fault.SILENCE: 2,
}


# Seconds: less and more than a lease.
_LASTS: Final = (0.3, 1.0, 3.0, 5.0)


def menu(*, servers: int, is_short: bool) -> Menu:
    slow = {} if is_short else _SLOW_TO_HEAL
    return {**_ANYWHERE, **slow, **(_ONE_SERVER if servers == 1 else _THREE_SERVERS)}


def schedule(seed: int, seconds: float, faults: Menu, *, every: float) -> Sequence[Injection]:
    """Each fault of the menu comes once before any comes by its weight, if there is time."""
    chance = Random(seed)  # noqa: S311 - the same at each run
    drawn = _draws(chance, faults)
    planned = []
    at = chance.expovariate(1 / every)
    while at < seconds:
        lasts = chance.choice(_LASTS)
        planned.append(Injection(at, next(drawn), lasts, chance.randrange(1 << 30)))
        at += chance.expovariate(1 / every)
    return planned


def deal(seed: int, seconds: float, faults: Menu) -> Sequence[Sequence[Injection]]:
    """Each fault of the menu once: one wave against processes, and then one against servers.

    A cluster that looks for a leader would give the others nothing to strike.
    """
    chance = Random(seed)  # noqa: S311 - the same at each run
    order = chance.sample([*faults], len(faults))
    against_processes = [fault for fault in order if fault in _ANYWHERE]
    against_servers = [fault for fault in order if fault not in _ANYWHERE]
    share = seconds / len(faults)
    return [_wave(chance, wave, share) for wave in (against_processes, against_servers)]


def _wave(chance: Random, faults: Sequence[Fault], share: float) -> Sequence[Injection]:
    return [
        Injection(
            share * (number + chance.random()),
            fault,
            chance.choice(_LASTS[:-1]),
            chance.randrange(1 << 30),
        )
        for number, fault in enumerate(faults)
    ]


def _draws(chance: Random, faults: Menu) -> Iterator[Fault]:
    yield from chance.sample([*faults], len(faults))
    while True:
        yield from chance.choices([*faults], [*faults.values()])
