"""Servers are killed, frozen, and kept from hearing each other; streams are purged."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Sequence
from typing import Final

from tests.chaos.faults import Fault, Injection
from tests.chaos.injecting import Act, Acts, Injecting, pick
from tests.chaos.way_faults import for_a_while, strikes
from tests.chaos.workload import CHAOS
from tests.support.fault_proxy import FaultProxy
from trellis_jobs.contract.topology import CONTROL, KEYS, LOG, WORK, alarms_stream
from trellis_jobs.errors import JobsError
from trellis_jobs.jetstream.client import api

ALARMS: Final = alarms_stream(CHAOS.contract.service)
# For work to be there.
_LOOKS: Final = 20
_PAUSE: Final = 0.3


class ServerFaults:
    """A server that is down, or frozen, is left alone until it is up again."""

    def __init__(self, injecting: Injecting) -> None:
        self._injecting = injecting
        self._servers = injecting.stage.servers
        self._numbers = range(len(self._servers.nodes))
        self._struck: set[int] = set()

    def acts(self) -> Acts:
        return {
            Fault.KILL_SERVER: self._kill_one,
            Fault.KILL_LEADER: self._kill_leader,
            Fault.KILL_ALL_SERVERS: self._kill_all,
            Fault.PAUSE_SERVER: self._pause,
            Fault.CUT_OFF: self._cut_off,
            Fault.SILENCE: self._silence,
            Fault.PURGE_WORK: self._purge(WORK),
            Fault.PURGE_ALARMS: self._purge(ALARMS),
        }

    async def _kill_one(self, injection: Injection) -> None:
        await self._kill(injection, [pick(self._numbers, injection)])

    async def _kill_all(self, injection: Injection) -> None:
        await self._kill(injection, self._numbers)

    async def _kill_leader(self, injection: Injection) -> None:
        stream = pick((LOG, WORK, KEYS, CONTROL, ALARMS), injection)
        end = time.monotonic() + self._injecting.timeout
        while time.monotonic() < end:
            leader = await self._leader(stream)
            if leader is not None and leader not in self._struck:
                await self._kill(injection, [leader])
                return
            await asyncio.sleep(_PAUSE)

    async def _leader(self, stream: str) -> int | None:
        try:
            told = await api.request(self._injecting.connection, f"STREAM.INFO.{stream}")
        except JobsError:  # no server answers
            return None
        leader = told["cluster"].get("leader")
        return int(leader.rpartition("-")[2]) if leader else None

    async def _kill(self, injection: Injection, numbers: Sequence[int]) -> None:
        if not await self._injecting.meets(lambda: not self._struck.issuperset(numbers)):
            return
        mine = [number for number in numbers if number not in self._struck]
        self._struck.update(mine)
        self._injecting.count(injection)
        nodes = [self._servers.nodes[number] for number in mine]
        for node in nodes:
            node.kill()
        await asyncio.sleep(injection.seconds)
        await asyncio.gather(*(asyncio.to_thread(node.restart) for node in nodes))
        self._struck.difference_update(mine)

    async def _pause(self, injection: Injection) -> None:
        number = pick(self._numbers, injection)
        if not await self._injecting.meets(lambda: number not in self._struck):
            return
        self._struck.add(number)
        self._injecting.count(injection)
        pid = self._servers.nodes[number].pid
        os.kill(pid, signal.SIGSTOP)
        await asyncio.sleep(injection.seconds)
        os.kill(pid, signal.SIGCONT)
        self._struck.remove(number)

    async def _cut_off(self, injection: Injection) -> None:
        links = self._servers.around(pick(self._numbers, injection))
        if await strikes(self._injecting, injection, links):
            await for_a_while(injection, links, FaultProxy.refuse, FaultProxy.admit)

    async def _silence(self, injection: Injection) -> None:
        links = self._servers.around(pick(self._numbers, injection))
        if await strikes(self._injecting, injection, links):
            await for_a_while(injection, links, FaultProxy.freeze, FaultProxy.thaw)

    def _purge(self, stream: str) -> Act:
        async def purge(injection: Injection) -> None:
            for _ in range(_LOOKS):
                try:
                    told = await api.request(self._injecting.connection, f"STREAM.PURGE.{stream}")
                except JobsError:  # no leader right now
                    told = {}
                if told.get("purged"):
                    self._injecting.count(injection)
                    return
                await asyncio.sleep(_PAUSE)

        return purge
