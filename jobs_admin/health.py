"""How the admin runtime fares: what `Jobs.Health` answers and the probes ask."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from jobs_admin.api.errors import ProjectionRebuilding
from jobs_admin.api.views.health import HealthStatus, LoopState
from jobs_admin.config import SERVICE_NAME
from jobs_admin.reads.position import position
from jobs_admin.reads.services import contract_conflicts
from trellis_jobs.contract.topology import LOG
from trellis_jobs.environment import own_version
from trellis_jobs.errors import JobsError
from trellis_jobs.jetstream.client.stream_info import advisory_backlog, next_in_log, stream_size
from trellis_jobs.jetstream.setup.storage_info import STREAMS, account_usages
from trellis_jobs.model.usage import Level
from trellis_jobs.wire.fields import add_present

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from datetime import datetime

    from jobs_admin.api.views.health import Mode
    from jobs_admin.loops import Loop, Loops
    from jobs_admin.reads.readers import Readers
    from trellis_jobs.contract.features import Features
    from trellis_jobs.jetstream.client.connection import Connection
    from trellis_jobs.jetstream.client.server_clock import ServerClock

log = logging.getLogger(__name__)

PROJECTOR: Final = "projector"
CONTRACTS: Final = "contracts"
PATIENCE: Final = 4.0
# Events come in all the time: only one that has waited for so long means falling behind.
LAG_ALLOWED: Final = timedelta(seconds=10)
ADVISORY_ALLOWED: Final = timedelta(minutes=5)


@dataclass(frozen=True, slots=True)
class Check:
    """`matters` to readiness: who has to answer requests can do without the others.

    Were a replica taken out because retention fails, so would all of them be, and nobody answered.
    """

    name: str
    status: HealthStatus
    facts: dict[str, Any]
    matters: bool = True

    def to_json(self) -> dict[str, Any]:
        return {"name": self.name, "status": self.status, **self.facts}


@dataclass(frozen=True, slots=True)
class Report:
    at: datetime
    mode: Mode
    checks: tuple[Check, ...]

    @property
    def status(self) -> HealthStatus:
        return _worst(self.checks)

    @property
    def is_ready(self) -> bool:
        return _worst(tuple(check for check in self.checks if check.matters)) is HealthStatus.OK

    def to_json(self) -> dict[str, Any]:
        return {
            "service": SERVICE_NAME,
            "version": own_version(),
            "status": self.status,
            "timestamp": self.at,
            "mode": self.mode,
            "checks": [check.to_json() for check in self.checks],
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    connection: Connection
    features: Features
    readers: Readers
    loops: Loops
    mode: Mode
    clock: ServerClock
    now: Callable[[], datetime]

    async def report(self) -> Report:
        """Never fails: what cannot be learnt is a check that says so."""
        server = self._server()
        asked: list[Check] = []
        if server.status is HealthStatus.OK:
            asked += await asyncio.gather(
                self._ask("projection", self._projection),
                self._ask("streams", self._streams),
                self._ask("advisories", self._advisories),
                self._ask(CONTRACTS, self._contracts),
            )
        at = self.now()
        loops = [_loop(loop, at) for loop in self.loops.all.values()]
        return Report(at, self.mode, (server, *asked, *loops))

    def _server(self) -> Check:
        connected = self.connection.is_connected
        facts: dict[str, Any] = {"connected": connected, "version": self.connection.server_version}
        if lacks := self.features.lacks():
            facts["lacks"] = lacks
        return Check("server", HealthStatus.OK if connected else HealthStatus.DEGRADED, facts)

    async def _ask(self, name: str, check: Callable[[], Awaitable[Check]]) -> Check:
        try:
            async with asyncio.timeout(PATIENCE):
                return await check()
        except TimeoutError:
            problem = f"nothing was learnt within {PATIENCE:g} s"
        except JobsError as error:
            problem = str(error)
        except Exception as error:
            log.exception("health check %s failed", name, extra={"check": name})
            problem = f"{type(error).__name__}: {error}"
        return Check(name, HealthStatus.DEGRADED, {"error": problem})

    async def _projection(self) -> Check:
        """The lag is real: of the log's gaps, which purges and expired heartbeats leave, none."""
        try:
            reached = await position(self.readers)
        except ProjectionRebuilding as rebuilding:
            return _rebuilding(rebuilding)
        log, following = await asyncio.gather(
            stream_size(self.connection, LOG), next_in_log(self.connection, reached)
        )
        if log is None:
            return Check(
                "projection", HealthStatus.DEGRADED, {"error": f"stream {LOG} is not there"}
            )
        behind, waited = 0, timedelta(0)
        if following is not None:
            behind = max(1, min(log.last_sequence - following.sequence + 1, log.messages))
            waited = max(waited, await self.clock.now() - following.stored_at)
        facts = {
            "position": reached,
            "lastSeq": log.last_sequence,
            "lagEvents": behind,
            "lagSeconds": round(waited.total_seconds(), 3),
        }
        return Check("projection", _ok_if(waited <= LAG_ALLOWED), facts)

    async def _streams(self) -> Check:
        sizes = await asyncio.gather(*(stream_size(self.connection, each) for each in STREAMS))
        usages = await account_usages(self.connection)
        listed = [
            {
                "name": size.name,
                "messages": size.messages,
                "bytes": size.bytes,
                "firstSeq": size.first_sequence,
                "lastSeq": size.last_sequence,
                "consumers": size.consumers,
            }
            for size in sizes
            if size is not None
        ]
        missing = [name for name, size in zip(STREAMS, sizes, strict=True) if size is None]
        problems = [f"not there: {', '.join(missing)}"] if missing else []
        for size in sizes:
            if size is not None:
                problems += size.replication.problems
                usages += size.usages
        problems += [str(usage) for usage in usages if usage.level is not Level.FINE]
        facts: dict[str, Any] = {"streams": listed}
        if problems:
            facts["error"] = "; ".join(problems)
        return Check("streams", _ok_if(not problems), facts, matters=False)

    async def _advisories(self) -> Check:
        """By the age of the oldest: each is dealt with at once, if anybody does."""
        backlog = await advisory_backlog(self.connection)
        if backlog is None:
            return Check("advisories", HealthStatus.OK, {}, matters=False)
        facts: dict[str, Any] = {"backlog": backlog.count}
        waited = timedelta(0)
        if backlog.oldest_at is not None:
            waited = max(waited, await self.clock.now() - backlog.oldest_at)
            facts["oldestSeconds"] = round(waited.total_seconds(), 3)
        return Check("advisories", _ok_if(waited <= ADVISORY_ALLOWED), facts, matters=False)

    async def _contracts(self) -> Check:
        """For a while it is so in every deploy that changes a contract."""
        try:
            found = await contract_conflicts(self.readers, now=await self.clock.now())
        except ProjectionRebuilding:
            found = []
        facts = {"error": "; ".join(found)} if found else {}
        return Check(CONTRACTS, _ok_if(not found), facts, matters=False)


def _rebuilding(how_far: ProjectionRebuilding) -> Check:
    facts = {
        "error": str(how_far),
        "rebuilding": {"messages": how_far.done, "of": how_far.total},
    }
    return Check("projection", HealthStatus.DEGRADED, facts)


def _loop(loop: Loop, now: datetime) -> Check:
    state = loop.state(now)
    facts: dict[str, Any] = {"state": state, "failures": loop.failures}
    add_present(
        facts,
        lastSuccess=loop.last_success,
        lastError=loop.last_error,
        lastFailure=loop.last_failure,
    )
    is_well, matters = state is not LoopState.FAILING, loop.name == PROJECTOR
    return Check(f"loop:{loop.name}", _ok_if(is_well), facts, matters=matters)


def _ok_if(well: bool) -> HealthStatus:
    return HealthStatus.OK if well else HealthStatus.DEGRADED


def _worst(checks: tuple[Check, ...]) -> HealthStatus:
    return _ok_if(all(check.status is HealthStatus.OK for check in checks))
