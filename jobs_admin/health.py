"""The health of the admin runtime: the reply to `Jobs.Health` and to HTTP readiness probes."""

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
CHECK_TIMEOUT: Final = 4.0
# New events arrive all the time, so the projection is behind only if one has waited this long.
MAX_PROJECTION_LAG: Final = timedelta(seconds=10)
MAX_ADVISORY_AGE: Final = timedelta(minutes=5)


@dataclass(frozen=True, slots=True)
class Check:
    """One check. `affects_readiness` is False for checks that do not matter for serving requests.

    If a failing retention loop made a replica unready, it would make all of them unready, and
    nothing would serve requests.
    """

    name: str
    status: HealthStatus
    facts: dict[str, Any]
    affects_readiness: bool = True

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
        checks = tuple(check for check in self.checks if check.affects_readiness)
        return _worst(checks) is HealthStatus.OK

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
        """Never raises: a check that cannot be carried out reports its error."""
        server = self._server()
        checks: list[Check] = []
        if server.status is HealthStatus.OK:
            checks += await asyncio.gather(
                self._run("projection", self._projection),
                self._run("streams", self._streams),
                self._run("advisories", self._advisories),
                self._run(CONTRACTS, self._contracts),
            )
        at = self.now()
        loops = [_loop(loop, at) for loop in self.loops.all.values()]
        return Report(at, self.mode, (server, *checks, *loops))

    def _server(self) -> Check:
        connected = self.connection.is_connected
        facts: dict[str, Any] = {"connected": connected, "version": self.connection.server_version}
        if lacks := self.features.lacks():
            facts["lacks"] = lacks
        return Check("server", HealthStatus.OK if connected else HealthStatus.DEGRADED, facts)

    async def _run(self, name: str, check: Callable[[], Awaitable[Check]]) -> Check:
        try:
            async with asyncio.timeout(CHECK_TIMEOUT):
                return await check()
        except TimeoutError:
            problem = f"the check did not finish within {CHECK_TIMEOUT:g} s"
        except JobsError as error:
            problem = str(error)
        except Exception as error:
            log.exception("health check %s failed", name, extra={"check": name})
            problem = f"{type(error).__name__}: {error}"
        return Check(name, HealthStatus.DEGRADED, {"error": problem})

    async def _projection(self) -> Check:
        """Count only messages that exist: purges and expired heartbeats leave gaps in the log."""
        try:
            reached = await position(self.readers)
        except ProjectionRebuilding as rebuilding:
            return _rebuilding(rebuilding)
        log, following = await asyncio.gather(
            stream_size(self.connection, LOG), next_in_log(self.connection, reached)
        )
        if log is None:
            return Check(
                "projection", HealthStatus.DEGRADED, {"error": f"stream {LOG} does not exist"}
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
        return Check("projection", _ok_if(waited <= MAX_PROJECTION_LAG), facts)

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
        problems = [f"missing streams: {', '.join(missing)}"] if missing else []
        for size in sizes:
            if size is not None:
                problems += size.replication.problems
                usages += size.usages
        problems += [str(usage) for usage in usages if usage.level is not Level.FINE]
        facts: dict[str, Any] = {"streams": listed}
        if problems:
            facts["error"] = "; ".join(problems)
        return Check("streams", _ok_if(not problems), facts, affects_readiness=False)

    async def _advisories(self) -> Check:
        """Judge by the age of the oldest advisory: a running admin runtime handles each at once."""
        backlog = await advisory_backlog(self.connection)
        if backlog is None:
            return Check("advisories", HealthStatus.OK, {}, affects_readiness=False)
        facts: dict[str, Any] = {"backlog": backlog.count}
        waited = timedelta(0)
        if backlog.oldest_at is not None:
            waited = max(waited, await self.clock.now() - backlog.oldest_at)
            facts["oldestSeconds"] = round(waited.total_seconds(), 3)
        is_ok = waited <= MAX_ADVISORY_AGE
        return Check("advisories", _ok_if(is_ok), facts, affects_readiness=False)

    async def _contracts(self) -> Check:
        """Report workers of one queue with different contracts, which is normal during a deploy."""
        try:
            found = await contract_conflicts(self.readers, now=await self.clock.now())
        except ProjectionRebuilding:
            found = []
        facts = {"error": "; ".join(found)} if found else {}
        return Check(CONTRACTS, _ok_if(not found), facts, affects_readiness=False)


def _rebuilding(progress: ProjectionRebuilding) -> Check:
    facts = {
        "error": str(progress),
        "rebuilding": {"messages": progress.done, "of": progress.total},
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
    is_ok, is_projector = state is not LoopState.FAILING, loop.name == PROJECTOR
    return Check(f"loop:{loop.name}", _ok_if(is_ok), facts, affects_readiness=is_projector)


def _ok_if(is_ok: bool) -> HealthStatus:
    return HealthStatus.OK if is_ok else HealthStatus.DEGRADED


def _worst(checks: tuple[Check, ...]) -> HealthStatus:
    return _ok_if(all(check.status is HealthStatus.OK for check in checks))
