"""What happens between a process and the servers: cuts, delays, repetitions, death at a word."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from tests.chaos.actors import Actor, Kind
from tests.chaos.faults import Fault, Injection
from tests.chaos.injecting import Act, Acts, Injecting, pick, pick_too
from tests.support.fault_proxy import FaultProxy, Then

# What a process sends when it is about to do something.
POINTS: Final[Mapping[Kind, Sequence[bytes]]] = {
    Kind.WORKER: (
        rb"PUB \S+\.created ",
        rb"PUB \S+\.started ",
        rb"PUB \S+\.(completed|failed|retry|dead) ",
        rb"PUB \$JS\.ACK\.\S+ .*\+ACK",
        rb"PUB \$JS\.ACK\.\S+ .*-NAK",
        rb"PUB \$KV\.JOBS_KEYS\.",
        rb"PUB trellis\.(alarm|due)\.",
        rb"PUB trellis\.control\.jobs\.schedules\.",
    ),
    Kind.PRODUCER: (
        rb"PUB \S+\.created ",
        rb"PUB trellis\.(alarm|due)\.",
        rb"PUB \S+\.scheduled ",
        rb"PUB \S+\.cancelled ",
        rb"PUB trellis\.control\.jobs\.schedules\.",
        rb"PUB \$KV\.JOBS_KEYS\.",
    ),
    Kind.DAEMON: (
        rb"PUB \S+\.(expired|retried|dismissed|retry|dead) ",
        rb"PUB trellis\.work\.",
        rb"PUB \$KV\.JOBS_KEYS\.",
    ),
}
EVENT_SENT: Final = rb"PUB trellis\.jobs\."
ACKNOWLEDGED: Final = (
    rb'"stream":"JOBS"',
    rb'"stream":"KV_JOBS_KEYS"',
    rb'"stream":"JOBS_ALARMS_chaos"',
    rb'"stream":"JOBS_CONTROL"',
)


class WayFaults:
    def __init__(self, injecting: Injecting) -> None:
        self._injecting = injecting
        self._stage = injecting.stage

    def acts(self) -> Acts:
        return {
            Fault.KILL_AT_POINT: self._kill_at_point(Kind.WORKER, Kind.DAEMON),
            Fault.KILL_CREATING: self._kill_at_point(Kind.PRODUCER),
            Fault.CUT: self._cut,
            Fault.CUT_REQUEST: self._cut_request,
            Fault.CUT_ANSWER: self._cut_answer,
            Fault.HOLD_BACK: self._hold_back,
            Fault.REPEAT_ANSWERS: self._repeat_answers,
        }

    def _kill_at_point(self, *kinds: Kind) -> Act:
        async def kill_at_point(injection: Injection) -> None:
            actor = pick(self._stage.of(*kinds), injection)
            # Whether what it was about to do still happens.
            then = Then.SWALLOW if injection.seconds < 1 else Then.FORWARD

            def kill() -> Then:
                self._injecting.count(injection)
                actor.restart()
                return then

            point = pick_too(POINTS[actor.kind], injection)
            await self._once(actor, point, kill, FaultProxy.when_client_sends)

        return kill_at_point

    async def _cut_request(self, injection: Injection) -> None:
        actor = pick(self._stage.actors, injection)
        await self._once(actor, EVENT_SENT, self._cutting(injection), FaultProxy.when_client_sends)

    async def _cut_answer(self, injection: Injection) -> None:
        actor = pick(self._stage.actors, injection)
        answer = pick_too(ACKNOWLEDGED, injection)
        await self._once(actor, answer, self._cutting(injection), FaultProxy.when_server_sends)

    def _cutting(self, injection: Injection) -> Callable[[], Then]:
        def cut() -> Then:
            self._injecting.count(injection)
            return Then.CUT

        return cut

    async def _once(
        self,
        actor: Actor,
        pattern: bytes,
        act: Callable[[], Then],
        when: Callable[[FaultProxy, bytes, Callable[[], Then]], None],
    ) -> None:
        """On whichever way of the process the bytes come first, while faults are still wanted."""
        is_done = False

        def first() -> Then:
            nonlocal is_done
            if is_done or self._injecting.is_over:
                return Then.FORWARD
            is_done = True
            return act()

        for proxy in self._stage.ways[actor.name]:
            when(proxy, pattern, first)
        await self._injecting.meets(lambda: is_done)

    async def _cut(self, injection: Injection) -> None:
        ways = self._stage.ways[pick(self._stage.actors, injection).name]
        if await strikes(self._injecting, injection, ways):
            for proxy in ways:
                proxy.cut()

    async def _hold_back(self, injection: Injection) -> None:
        ways = self._stage.ways[pick(self._stage.actors, injection).name]
        if await strikes(self._injecting, injection, ways):
            await for_a_while(injection, ways, FaultProxy.freeze, FaultProxy.thaw)

    async def _repeat_answers(self, injection: Injection) -> None:
        """In the name of a worker: the server cannot tell."""
        later = asyncio.get_running_loop().call_later
        actor = pick(self._stage.of(Kind.WORKER), injection)
        repeated = 0

        def repeat(subject: str, body: bytes) -> None:
            nonlocal repeated
            if not self._injecting.is_over:
                repeated += 1
                later(injection.seconds, self._injecting.connection.publish_nowait, subject, body)

        for proxy in self._stage.ways[actor.name]:
            proxy.on_answers(repeat, uses=2)
        if await self._injecting.meets(lambda: repeated > 0):
            self._injecting.count(injection)


async def strikes(injecting: Injecting, injection: Injection, ways: Sequence[FaultProxy]) -> bool:
    """Applies once a client uses one of the proxies, and is counted then."""
    is_used = await injecting.meets(lambda: any(way.is_used for way in ways))
    if is_used:
        injecting.count(injection)
    return is_used


async def for_a_while(
    injection: Injection,
    ways: Sequence[FaultProxy],
    begin: Callable[[FaultProxy], None],
    end: Callable[[FaultProxy], None],
) -> None:
    for way in ways:
        begin(way)
    await asyncio.sleep(injection.seconds)
    for way in ways:
        end(way)
