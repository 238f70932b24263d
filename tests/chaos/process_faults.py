"""Processes are killed, frozen, told to stop, mistaken in the time, and out of disk space."""

from __future__ import annotations

import asyncio
import resource
import signal
from typing import Final

from tests.chaos.actors import Actor, Kind
from tests.chaos.faults import Fault, Injection
from tests.chaos.injecting import Act, Acts, Injecting, pick, pick_too

JUMPS: Final = (-5.0, -1.0, 1.0, 5.0)


class ProcessFaults:
    def __init__(self, injecting: Injecting) -> None:
        self._injecting = injecting
        self._stage = injecting.stage

    def acts(self) -> Acts:
        return {
            Fault.KILL_WORKER: self._kill(Kind.WORKER),
            Fault.KILL_PRODUCER: self._kill(Kind.PRODUCER),
            Fault.KILL_DAEMON: self._kill(Kind.DAEMON),
            Fault.PAUSE_WORKER: self._pause(Kind.WORKER),
            Fault.PAUSE_PRODUCER: self._pause(Kind.PRODUCER),
            Fault.PAUSE_DAEMON: self._pause(Kind.DAEMON),
            Fault.STOP_WORKER: self._stop_worker,
            Fault.CLOCK_JUMP: self._jump,
            Fault.FULL_DISK: self._fill_disk,
        }

    def restore(self) -> None:
        for actor in self._stage.actors:
            actor.send(signal.SIGCONT)
            actor.limit_files(resource.RLIM_INFINITY)
        for actor in self._stage.of(Kind.WORKER):
            actor.jump(0)

    def _kill(self, kind: Kind) -> Act:
        async def kill(injection: Injection) -> None:
            actor = pick(self._stage.of(kind), injection)
            if await self._injecting.meets(lambda: actor.is_running):
                self._injecting.count(injection)
                actor.restart()

        return kill

    def _pause(self, kind: Kind) -> Act:
        async def pause(injection: Injection) -> None:
            actor = pick(self._stage.of(kind), injection)
            if await self._strikes(actor, injection):
                actor.send(signal.SIGSTOP)
                await asyncio.sleep(injection.seconds)
                actor.send(signal.SIGCONT)

        return pause

    async def _stop_worker(self, injection: Injection) -> None:
        actor = pick(self._stage.of(Kind.WORKER), injection)
        if await self._strikes(actor, injection):
            await actor.deploy_again()

    async def _jump(self, injection: Injection) -> None:
        actor = pick(self._stage.of(Kind.WORKER), injection)
        if await self._strikes(actor, injection):
            actor.jump(pick_too(JUMPS, injection))

    async def _fill_disk(self, injection: Injection) -> None:
        actor = pick(self._stage.of(Kind.DAEMON), injection)
        if await self._strikes(actor, injection):
            actor.limit_files(0)
            await asyncio.sleep(injection.seconds)
            actor.limit_files(resource.RLIM_INFINITY)

    async def _strikes(self, actor: Actor, injection: Injection) -> bool:
        """Once it is up; then it is counted."""
        is_up = await self._injecting.meets(lambda: actor.is_up)
        if is_up:
            self._injecting.count(injection)
        return is_up
